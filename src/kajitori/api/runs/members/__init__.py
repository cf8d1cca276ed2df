"""Members of runs: their list, and connections to them for commands, terminals and ports. Begin with
`exec.exec_in_member`."""
