"""The first step of a member, `python -m kajitori.member`: every member of a gang runs it before the user's program.
Begin with `__main__.main`.

It must start fast and in every image, so it imports only a small part of the standard library and, of this package,
`core.naming.first_step`.
"""
