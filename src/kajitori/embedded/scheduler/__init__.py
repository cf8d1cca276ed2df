"""The embedded cluster's scheduler: filters, scores, and binding. Begin with `binder.Binder`."""
