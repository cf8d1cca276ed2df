"""Who a caller is and what a caller may do: ID tokens of OpenID providers, roles."""
