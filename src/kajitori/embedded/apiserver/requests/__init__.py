"""Requests and answers: target, options, selectors, and the formats of bodies. Begin with `target.Target`."""
