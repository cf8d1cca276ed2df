"""Marks and tests nodes, and watches which of them are silent."""
