"""The resources of this machine: processors, memory, GPUs, mount namespaces and control groups. Begin with
`detection.Machine`."""
