"""Verbs on the members of a run."""
