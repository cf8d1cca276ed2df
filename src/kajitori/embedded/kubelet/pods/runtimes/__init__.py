"""How a node runs containers: as plain processes, or by the engine of Docker or Podman. Begin with
`runtime.Runtime`."""
