"""Kajitori's own objects in a cluster: definitions, the signing key, events, the leader's lease, agents' identities."""
