"""The same random API operations against two API servers, and what they answer differently."""
