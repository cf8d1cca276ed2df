"""Metrics, alerts and dashboards. `metrics` defines the name and meaning of each metric; `alerts` has the alert
rules."""
