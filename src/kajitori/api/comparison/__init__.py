"""Runs beside each other: what differs in what they asked for, in what became of them, and in their curves."""
