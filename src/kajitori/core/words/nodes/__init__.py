"""Words about nodes: lists of names, taints, suspects, and what a Pod takes of a node."""
