"""The composition root: one module per kind of process, which wires its parts and runs it until it is told to stop.
Begin with `up.up`.

Each module imports only what its own process needs. `parts` has the builders that several processes share, `process`
the loop around each of them, and `logs` their logging.
"""
