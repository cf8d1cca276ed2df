"""Sends messages: a process of its own, because it runs the code of many services with users' URLs. Begin with
`sender.Sender`."""
