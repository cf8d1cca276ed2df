"""Objects of a namespace that its runs use, and their limits: code, Secrets, volumes, quotas."""
