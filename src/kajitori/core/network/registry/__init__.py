"""The registry of addresses: one file in which operators list all clusters with their ranges. Begin with
`parsing.parse_networks`; `model` has the types of the file."""
