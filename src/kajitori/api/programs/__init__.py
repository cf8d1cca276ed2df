"""State of the proxy for programs between requests: sessions of browsers at other origins, and open connections. Begin
with `connections.Connections`."""
