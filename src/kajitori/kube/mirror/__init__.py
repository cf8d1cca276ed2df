"""An in-memory copy of what the cluster holds, with indexes."""
