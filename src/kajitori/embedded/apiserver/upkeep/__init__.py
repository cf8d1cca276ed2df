"""Changes that the server makes itself: deletion, garbage collection, defaults."""
