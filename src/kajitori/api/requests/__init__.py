"""Steps that all requests pass: middleware, limits of callers, and reading bodies. Begin with `middleware.Guard`."""
