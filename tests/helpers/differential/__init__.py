"""Runs the same random API operations against two API servers, and compares the answers."""
