"""Kajitori's own objects in a cluster: definitions, the signing key, the leader's lease, agents' identities."""
