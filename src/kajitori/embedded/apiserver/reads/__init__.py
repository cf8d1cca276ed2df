"""Reading: lists, watches, selectors and tables."""
