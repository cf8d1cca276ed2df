"""The first step of a member, `python -m kajitori.member`: what every member of a gang runs before the user's program.

It has to start at once and everywhere, so it imports the standard library's smaller half and nothing of ours but
`core.words.first_step`.
"""
