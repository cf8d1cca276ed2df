"""Stores of blobs behind one interface: a folder, S3, Azure Blob Storage or Google Cloud Storage. Begin with
`blobs.Blobs`, the interface; `opening` chooses a store by its URL."""
