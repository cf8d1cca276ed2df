"""Code on its way: a folder as one archive that is the same everywhere, and back again.

    layout     what an archive looks like, and what it may not hold
    ignoring   what stays out: .gitignore, .kajiignore
    packing    a folder as an archive: its digest, its parts
    parts      an archive on the wire and in the store: pieces of fixed size, each compressed
    unpacking  an archive as a folder
    uploading  the conversation that brings an archive to the Web API

This runs in the first step of every member: it imports nothing of ours but the errors.
"""
