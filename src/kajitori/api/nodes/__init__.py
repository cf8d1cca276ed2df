"""Nodes, their health, pools that grow, and the board of GPUs."""
