"""The agent, which runs once on each node and counts the traffic of the node's Pods."""
