"""Admission: defaults and checks that need a view of other objects."""
