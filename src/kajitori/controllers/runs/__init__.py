"""The run controller: from a Run's next step to writes on the API server."""
