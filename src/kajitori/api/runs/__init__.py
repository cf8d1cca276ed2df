"""Runs: submitting, reading, changing them, their members and results."""
