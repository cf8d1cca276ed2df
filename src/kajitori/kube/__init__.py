"""The Kubernetes client: the only package that talks to an API server.

Begin with `client`, and with `watch`, which follows all objects of a kind. `errors` turns the server's answers into
Kajitori's errors.
"""
