"""The answers of the Web API as types."""
