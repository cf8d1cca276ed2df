"""Verbs on secrets and volumes."""
