"""Watches running runs by their telemetry: idle GPUs, runs that make no progress, slow ranks. Only the leading
controller does this. `feed` hands new telemetry to the watchers in the other modules. Begin with `feed.Feed`."""
