"""Connections to members: commands, attached programs and ports, over WebSockets of the Web API. Begin with
`streams`."""
