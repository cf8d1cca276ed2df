"""Nodes, node pools and requests for nodes, in the types of `core`. Begin with `node_facts.node_facts`.

`client_evidence` is about the API server: it finds the clients that put load on it.
"""
