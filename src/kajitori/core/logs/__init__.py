"""The logs of members: how they are kept, the line that names an error, and the lines that Kajitori adds. Begin with
`kept.logs_to_keep`."""
