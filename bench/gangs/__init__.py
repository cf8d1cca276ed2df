"""Starting and restarting large gangs, and what they leave in the API server."""
