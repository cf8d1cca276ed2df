"""Metrics, alerts, dashboards and what is logged of failures that last. `metrics` defines the name and meaning of each
metric; `alerts` has the alert rules."""
