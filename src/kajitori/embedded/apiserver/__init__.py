"""A small Kubernetes-compatible API server: to Kubernetes what SQLite is to PostgreSQL."""
