"""The parts of a run's status, by subject. `status.RunStatus` puts them together."""
