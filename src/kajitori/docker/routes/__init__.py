"""The routes of the Engine API, by subject."""
