"""Nodes, their health, node pools that an autoscaler can grow, and the GPU board. Begin with `routes.get_node`."""
