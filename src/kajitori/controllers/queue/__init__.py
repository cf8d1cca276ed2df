"""Plans all waiting runs as one queue, and asks for nodes."""
