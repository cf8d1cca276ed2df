"""The queue: who waits, why, and what would happen to a run that is not submitted yet."""
