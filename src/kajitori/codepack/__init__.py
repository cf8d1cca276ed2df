"""Transport of code: a folder as one archive that is identical on every machine, and back. Begin with `packing.pack`.

    layout     the format of an archive, and which entries are forbidden
    ignoring   which files are left out: .gitignore, .kajiignore
    packing    a folder as an archive: its digest, its parts
    parts      an archive on the wire and in the store: pieces of fixed size, each compressed
    unpacking  an archive as a folder
    uploading  the requests that upload an archive to the Web API

The first step of every member runs this, so of this project it imports only the errors.
"""
