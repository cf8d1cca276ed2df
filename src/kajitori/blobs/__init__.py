"""Bytes that are kept: code and logs, in one blob store behind one interface."""
