"""Metric names: the one place that knows what every metric of ours is called and means."""
