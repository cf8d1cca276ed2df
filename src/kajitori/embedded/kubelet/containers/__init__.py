"""One container: environment, mounts, limits, start, and its log. Begin with `container.Container`."""
