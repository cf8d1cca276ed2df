"""Cost of telemetry, and whether it finds stragglers and stuck gangs."""
