"""Parts of `kaji run` that only the command line needs: packing code with a status line, notes, and answers to options
of other tools. Begin with `code.Code`."""
