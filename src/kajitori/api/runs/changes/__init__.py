"""Changes of runs with the credentials of the caller: stop, resume, delete, limits, labels, notes."""
