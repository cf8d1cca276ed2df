"""One container: environment, mounts, limits, start, and its log."""
