"""Nodes, their health, node pools that an autoscaler can grow, and the GPU board."""
