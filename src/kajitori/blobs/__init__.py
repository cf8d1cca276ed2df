"""Blob storage behind one interface, and what is kept in it: code, logs, results, traffic."""
