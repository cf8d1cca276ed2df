"""Documents that users write: reading of YAML, types of single fields, and faults with their location. Begin with
`files.parse_document`."""
