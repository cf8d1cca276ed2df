"""Changes of runs with the credentials of the caller: stop, resume, delete, limits, labels, notes. Begin with
`compare_and_swap.change_run`."""
