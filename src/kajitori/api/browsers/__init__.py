"""Sessions of browsers: cookies instead of tokens."""
