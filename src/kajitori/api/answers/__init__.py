"""What all answers have in common: pages of lists, compression, and errors as problem+json."""
