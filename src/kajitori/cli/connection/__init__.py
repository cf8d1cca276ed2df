"""The command line's connections to members: commands, copied files, forwarded ports, folders. Begin with
`execution.execute`."""
