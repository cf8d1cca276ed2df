"""The operators' policy file: one module per section."""
