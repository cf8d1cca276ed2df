"""What `docs/screenshots.py` takes pictures of, and the servers that show it."""
