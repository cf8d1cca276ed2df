"""Writing: the path of every create, update and patch, and the writes that follow from them. Begin with
`objects.Objects`."""
