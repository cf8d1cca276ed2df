"""SPDY/3.1 as Kubernetes uses it: its frames, and the streams of a connection. Begin with `session.Session`."""
