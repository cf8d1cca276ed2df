"""Reading: lists, watches and tables."""
