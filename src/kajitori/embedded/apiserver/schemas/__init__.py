"""Types of the built-in kinds: schemas, decoding, OpenAPI, protobuf, CEL."""
