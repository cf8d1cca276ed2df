"""Policy for the requests of runs, and for the settings of their Pods."""
