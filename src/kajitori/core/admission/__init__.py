"""What policy and the cluster say of a submitted run: refused, or resolved into what it gets."""
