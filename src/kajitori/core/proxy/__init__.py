"""The rules of the proxy that shows people the web pages of their runs' programs: addresses, headers and cookies."""
