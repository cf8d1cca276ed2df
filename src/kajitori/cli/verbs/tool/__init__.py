"""Verbs about the command line itself."""
