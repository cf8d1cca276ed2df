"""Documents that people write: reading YAML, types of single fields, and faults with their place."""
