"""People: how they sign in, who they are, their browser sessions."""
