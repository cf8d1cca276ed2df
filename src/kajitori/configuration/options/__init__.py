"""Options of each process: immutable, and checked when they are created, with all faults at once. Begin with
`shared.ClusterOptions`."""
