"""Evidence about runs that hang or fail: stacks, native calls, flight records and connections of their ranks. Begin
with `evidence.Evidence`."""
