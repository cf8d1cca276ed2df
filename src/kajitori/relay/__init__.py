"""The watch cache between node agents and the API server. It has one mirror, and tells each agent about the Pods of the
agent's node."""
