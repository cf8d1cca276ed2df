"""Protection of the control plane: reports on clients of an API server, token buckets, and limits on connections."""
