"""Members of runs: their list, and connections to them for commands, terminals and ports."""
