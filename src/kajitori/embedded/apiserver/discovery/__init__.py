"""Discovery: the groups, versions and resources that are served, and OpenAPI."""
