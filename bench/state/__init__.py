"""The mirror of the cluster's state, and the history of runs."""
