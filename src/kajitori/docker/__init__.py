"""A bridge that serves Docker's Engine API for one user, and does everything through the Web API as that user. Begin
with `server.build_app`."""
