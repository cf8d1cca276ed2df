"""Forms of output: tables, JSON and YAML, and tables for other programs."""
