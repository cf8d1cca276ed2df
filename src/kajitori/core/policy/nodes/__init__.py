"""Policy for the health of nodes and for pools that grow."""
