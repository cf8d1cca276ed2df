"""Forms of output: tables, JSON and YAML, templates of Docker's `--format`, and tables for other programs."""
