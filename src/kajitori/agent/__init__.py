"""The agent, which runs once on each node. It counts the traffic of the node's Pods, and samples members (`telemetry`).
Begin with `counting.Counting`.

`counting` reads totals from one of the `engines`; `reporting` sends them to a server, and `exposition` shows them to
Prometheus. `pods` and `relay` know which Pods are on the node.
"""
