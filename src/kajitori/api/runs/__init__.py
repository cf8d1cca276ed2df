"""Runs: submit, read and change them, their members and results. Begin with `routes.get_run`."""
