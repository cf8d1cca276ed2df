"""Nodes, node pools, requests for nodes, and what else asks the API server about them."""
