"""Benchmarks: one command each, each a ratio against a peer or a limit in the same run.

Folders are subjects; `parts` is what they share.
"""
