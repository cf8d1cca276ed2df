"""Runs of all times, usage, and the audit trail. Begin with `routes.list_history`."""
