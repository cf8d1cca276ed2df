"""The leading controller watches running runs by their telemetry."""
