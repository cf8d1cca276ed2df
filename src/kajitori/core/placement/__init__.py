"""Where members go: the snapshot of the cluster and the planner."""
