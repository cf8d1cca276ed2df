"""Calls of functions: which worker of a run does which call next."""
