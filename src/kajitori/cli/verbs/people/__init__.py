"""Verbs on the caller: signing in and out, rights, tokens for robots."""
