"""The embedded cluster's own controllers: binder, volumes, node life cycle, budgets, endpoints. Begin with
`controller.Controller`."""
