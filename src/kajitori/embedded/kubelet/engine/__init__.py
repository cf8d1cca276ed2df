"""The API of container engines, which Docker and Podman both serve. Begin with `client.EngineClient`."""
