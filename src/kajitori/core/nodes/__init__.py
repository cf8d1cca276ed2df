"""Nodes: their health, tests before they are used, and requests for more of them. Begin with `health`."""
