"""Thin shells around `core`: they read the mirror, ask what to do, and do it."""
