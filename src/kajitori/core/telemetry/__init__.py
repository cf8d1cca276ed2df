"""Telemetry of runs without I/O: what is measured, samples of members, reports of nodes, and bands over all ranks."""
