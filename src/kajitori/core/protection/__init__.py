"""Protecting the control plane: which clients ask an API server how much, token buckets, and bounds on connections."""
