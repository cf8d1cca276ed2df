"""Backup and restore: Runs, installation, history and blobs in one file.

archive    the file: a tar with zstd, which begins with a description and ends with a list of digests
taking     reads a cluster, its history and its blobs into such a file
restoring  brings what is in such a file, and missing, back into a cluster
"""
