"""Authentication and authorization of callers: ID tokens of OpenID providers, roles. Begin with `roles.RoleView`."""
