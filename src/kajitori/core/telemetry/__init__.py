"""Telemetry of runs without I/O. `quantities` is the table of everything that is measured; `ring` holds a member's
samples, `report` the messages between agents and servers, and `bands` the summaries over all ranks. `stuck`, `idle`,
`stragglers` and `hangs` draw conclusions from them."""
