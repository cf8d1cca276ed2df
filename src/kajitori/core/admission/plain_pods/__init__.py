"""Pods that people create without Kajitori: the rules for them, and the admission policies that enforce these. Begin
with `rules.Rule`."""
