"""The Python client of the Web API: requests over HTTP with the standard library alone."""
