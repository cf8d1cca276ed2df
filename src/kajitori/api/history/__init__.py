"""Runs that were, usage, and the audit trail."""
