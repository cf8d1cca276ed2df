"""Telemetry of runs, without I/O: measurements of members, summaries over all ranks, and conclusions about the run.
Begin with `quantities.Quantity`.

quantities   the table of everything that is measured; `training` reads the figures that programs write themselves
ring         the samples of one member in its agent's memory
report       the messages between agents and servers
bands        summaries over all ranks; `collector` makes them in a server, `levels` says how long they are kept
node_figures figures of whole nodes and of their GPUs, in few bytes
stuck, spinning, idle, stragglers, hangs   conclusions: runs without progress, idle GPUs, slow ranks, stacks
"""
