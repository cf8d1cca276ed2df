"""Stored Runs and their Pods in the types of `core`: specs, members, memory peaks, results."""
