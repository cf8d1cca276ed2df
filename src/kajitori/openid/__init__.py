"""A client's requests to an OpenID provider and their answers, without I/O.

The command line and the Web API drive it, each with its own HTTP client.
"""
