"""Admission: defaults and checks that need a view of other objects. Begin with `admission.admit`."""
