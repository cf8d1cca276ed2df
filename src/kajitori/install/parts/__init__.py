"""The objects of an installation, one module for each part. Begin with `workloads.server`."""
