"""Verbs that show runs: lists, logs, explanations."""
