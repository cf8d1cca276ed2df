"""Backup and restore: Runs, installation, history and blobs in one file. Begin with `taking.take`.

archive    the file format: a tar with zstd that begins with a description and ends with a list of digests
taking     writes a cluster, its history and its blobs into such a file
restoring  restores what a cluster lacks from such a file
"""
