"""Nodes, node pools and requests for nodes, in the types of `core`; and which clients put load on the API server."""
