"""Runs of all times, usage, and the audit trail."""
