"""Following logs and reading parts of them."""
