"""Verbs that show what runs use, and where their time went."""
