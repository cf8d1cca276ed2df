"""The watch cache between node agents and the API server: one mirror, told node by node to whoever asks."""
