"""Subresources: binding, eviction, scale, and what the kubelet answers."""
