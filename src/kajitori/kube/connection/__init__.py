"""Connections to an API server: its address, credentials, HTTP, retries, and the requests in flight. Begin with
`transport.Transport`."""
