"""From the options of `kaji run` to the body of a request."""
