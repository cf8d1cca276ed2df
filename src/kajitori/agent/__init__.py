"""What runs once on each node: it counts the traffic of the node's Pods."""
