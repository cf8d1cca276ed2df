"""What runs of a namespace use, and what limits them: code, Secrets, volumes, quotas."""
