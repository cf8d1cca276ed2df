"""Addresses and network namespaces of Pods on this machine."""
