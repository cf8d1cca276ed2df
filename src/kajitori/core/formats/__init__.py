"""Formats of values that people and programs read and write: amounts, durations, times, and lists of nodes or ranks."""
