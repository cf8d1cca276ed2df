"""Types of the built-in kinds: schemas, decoding, protobuf; paths and expressions (JSONPath, CEL). Begin with
`schema.Schema`."""
