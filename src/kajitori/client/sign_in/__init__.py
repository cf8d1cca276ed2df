"""Signing in from a program: the provider over HTTP, the browser's way back, tokens in a file. Begin with
`starting`."""
