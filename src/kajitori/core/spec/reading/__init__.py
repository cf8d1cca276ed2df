"""Specs and statuses as they are read: what users write, with all faults; what is stored; what may be damaged. Begin
with `parsing.parse_spec`."""
