"""Code on its way: a folder as one archive that is the same everywhere, and back again."""
