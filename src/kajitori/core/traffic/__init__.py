"""Counting traffic of Pods: totals, reports, and the book of the whole cluster."""
