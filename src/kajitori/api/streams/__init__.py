"""Answers that go on for long: changes, events, exec."""
