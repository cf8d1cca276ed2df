"""Forwarded ports, relays, counted traffic, and hostile connections."""
