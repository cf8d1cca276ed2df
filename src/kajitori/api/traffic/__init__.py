"""Traffic by run, user and namespace, and the address registry. Begin with `routes`."""
