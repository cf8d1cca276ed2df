"""Benchmarks. Each module is a command (`python -m bench.scheduling.queue`) that prints a ratio against a peer, or a
value beside a limit, from the same run. Folders are subjects; `parts` has the code that several benchmarks share.
"""
