"""Verbs that start, end and delete runs, and wait for them."""
