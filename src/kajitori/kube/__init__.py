"""The only package that speaks Kubernetes over a wire."""
