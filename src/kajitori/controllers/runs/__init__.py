"""Writes to the API server for single runs: statuses, Pods, and the objects that a run owns (Service, budget,
NetworkPolicy). Begin with `statuses.Statuses`."""
