"""Requests and answers: target, options, selectors, and the formats of bodies."""
