"""People: how they sign in, who they are, their browser sessions. Begin with `routes.who_am_i`."""
