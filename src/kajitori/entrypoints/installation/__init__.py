"""`kaji install`, `kaji upgrade` and `kaji uninstall`, with the operator's rights. Begin with `installing.install`.

planning    the objects to apply, and those that exist
installing  applies them, and waits for the parts
keys        certificates and the key of browsers' sessions
removing    removes the parts, and reports which objects stay
"""
