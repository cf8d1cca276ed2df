"""Changes of a run's status that all types of runs share, and texts about its members and preemptions. Begin with
`progress.place_on`."""
