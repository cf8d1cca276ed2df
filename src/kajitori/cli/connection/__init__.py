"""The command line's connections to a server: choosing it, requests, streams, commands in members."""
