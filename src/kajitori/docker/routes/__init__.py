"""The routes of the Engine API, by subject. Begin with `containers.create`."""
