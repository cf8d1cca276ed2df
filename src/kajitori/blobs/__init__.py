"""Records that Kajitori keeps in a store of blobs. Begin with `stores.blobs.Blobs`, the interface of such stores.

stores               a folder, S3, Azure Blob Storage or Google Cloud Storage
code, code_room      users' code, and the room that all code of a namespace may take
logs, log_indexes, stacks, results   what is kept of a run's members after their Pods are gone
run_blobs            the keys of a run's blobs, and their removal with the run
calls                calls of functions
history_outbox       records that history's database could not take
questions, traffic   what several servers pass to each other: questions about nodes, reports of traffic
"""
