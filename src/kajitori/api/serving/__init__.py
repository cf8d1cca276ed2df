"""Listening sockets, deadlines and bounds of the Web API, and what every request passes through."""
