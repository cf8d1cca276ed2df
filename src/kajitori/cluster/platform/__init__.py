"""Kajitori's own objects in a cluster: definitions, admission policies, the signing key, the leader's Lease, Secrets
for messages. `agents` and `gateway` identify callers: agents, and people who sign in with ID tokens. Begin with
`install.install`."""
