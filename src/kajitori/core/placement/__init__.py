"""Placement of gangs: the snapshot of the cluster, the planner, and the choice of nodes."""
