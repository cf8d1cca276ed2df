"""Admission policies: rules about requests, and changes of their objects, that are written in CEL and stored in the
cluster. Begin with `evaluation.StoredPolicies`."""
