"""What the leading controller learns of running runs from their telemetry."""
