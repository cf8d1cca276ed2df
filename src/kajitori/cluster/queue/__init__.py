"""The waiting runs, the expected lengths of all runs, and preemptions, from the mirror."""
