"""Protection of servers from load: a report on the clients of an API server, rate limits, limits on connections. Begin
with `api_clients`."""
