"""The operators' policy file: modules for its sections, by subject. Begin with `model.Policy`."""
