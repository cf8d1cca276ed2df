"""Texts and tables about runs, the queue and pools."""
