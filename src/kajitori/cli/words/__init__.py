"""Texts for what the Web API answers, as tables and pages show them."""
