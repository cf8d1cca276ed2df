"""The watch cache between the nodes' agents and the API server. It mirrors the Pods, and tells each agent about the
Pods of its node. Begin with `server.RelayServer`."""
