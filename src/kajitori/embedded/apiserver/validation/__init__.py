"""Validation of built-in kinds: by their schema, tables of rules per field, and rules between fields. Begin with
`validate.validate`."""
