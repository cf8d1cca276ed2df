"""Samples the members on one node: processes and control groups, GPUs, training figures; reports and answers. Begin
with `samples.Sampling`."""
