"""Pure translations between the Engine API's documents and those of the Web API. Begin with
`creation.read_creation`."""
