"""Quantities, times, names, selectors, and other small texts."""
