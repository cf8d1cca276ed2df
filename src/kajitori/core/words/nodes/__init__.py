"""Nodes: compact lists of names, taints, nodes that a run avoids, and the amounts that a Pod takes of its node."""
