"""Strategies of the kinds: defaults, validation, and which changes an update may make. Begin with
`strategy.Strategy`."""
