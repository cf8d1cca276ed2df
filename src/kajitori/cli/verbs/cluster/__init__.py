"""Verbs on nodes, the queue, policy, traffic and networks."""
