"""Telemetry of runs: what agents report, bands over ranks, and single ranks in full resolution. Begin with `routes`."""
