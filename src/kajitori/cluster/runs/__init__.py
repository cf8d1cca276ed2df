"""Stored Runs and their Pods in the types of `core`: specs, members, dependencies, memory peaks, results, records.
Begin with `members.member_of`."""
