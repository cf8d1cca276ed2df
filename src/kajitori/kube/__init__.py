"""The Kubernetes client: the only package that talks to an API server."""
