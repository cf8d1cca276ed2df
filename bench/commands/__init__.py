"""Benchmarks of the command line and of the Python library."""
