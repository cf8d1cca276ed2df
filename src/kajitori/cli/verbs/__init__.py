"""One module per verb; each has `command`."""
