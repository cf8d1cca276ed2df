"""An in-memory copy of the cluster's objects, with indexes."""
