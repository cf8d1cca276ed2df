"""The API of container engines, which Docker and Podman both serve."""
