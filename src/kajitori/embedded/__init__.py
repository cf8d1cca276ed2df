"""The embedded cluster: a Kubernetes API server, nodes that run processes, simulated nodes."""
