"""The proxy through which people open the web pages of their runs' programs. Begin with `gate.Programs`."""
