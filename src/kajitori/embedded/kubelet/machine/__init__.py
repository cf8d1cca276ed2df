"""What this machine can give: processors, memory, GPUs, mount namespaces and control groups."""
