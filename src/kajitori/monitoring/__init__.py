"""Metrics, alerts, dashboards, and the logging of failures that last. `metrics` defines the name and meaning of each
metric; `alerts` has the alert rules. Begin with `metrics`."""
