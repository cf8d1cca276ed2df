"""The composition root: a module for each kind of process, which wires it out of its parts and runs it until it is told
to stop. Each imports what its own process needs: a node has no Web API to start."""
