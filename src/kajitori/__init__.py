"""Kajitori."""
