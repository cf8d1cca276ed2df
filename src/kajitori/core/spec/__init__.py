"""A Run as people write and read it: spec, status, reasons, and its definition in Kubernetes."""
