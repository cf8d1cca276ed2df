"""What a client says to an OpenID provider and what the answers mean, without I/O.

The command line and the Web API drive it, each with its own HTTP client.
"""
