"""What `kaji run` adds to the building of a request: packing code with a status line, notes, options of other tools."""
