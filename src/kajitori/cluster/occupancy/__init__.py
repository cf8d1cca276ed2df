"""The nodes that each run holds or was promised, and the usage of nodes by all Pods. Begin with `index.Occupancy`."""
