"""Nodes: `health` marks unhealthy nodes and tests them, `silent_nodes` measures for how long a node has not
answered."""
