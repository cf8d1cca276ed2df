"""What the mirror of a cluster says, in the terms of `core`."""
