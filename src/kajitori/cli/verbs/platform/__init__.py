"""Verbs that start processes of the platform."""
