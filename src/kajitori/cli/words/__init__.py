"""Answers of the Web API as texts for tables and pages."""
