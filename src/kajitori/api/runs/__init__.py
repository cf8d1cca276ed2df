"""Runs: submit, read and change them, their members and results."""
