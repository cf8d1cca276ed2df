"""Blob storage behind one interface, and the records that Kajitori keeps in it. `blobs` is the interface, `folder` and
`cloud` implement it, and `opening` chooses one by URL. The other modules keep one kind of record each: code, logs,
results, traffic. Begin with `blobs.Blobs`."""
