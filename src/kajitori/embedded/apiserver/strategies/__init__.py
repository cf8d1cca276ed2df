"""What each family of kinds does to its objects: defaults, validation, what an update may change."""
