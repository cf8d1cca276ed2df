"""The embedded cluster's own controllers: binder, volumes, node life cycle, budgets, endpoints."""
