"""Addresses of many clusters: the registry, what hubs and NAT hosts make of it, and how far an address plan carries."""
