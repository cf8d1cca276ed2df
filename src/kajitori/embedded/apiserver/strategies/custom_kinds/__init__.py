"""Kinds that CustomResourceDefinitions add: their definitions, schemas, rules and objects. Begin with
`definitions.DefinitionStrategy`."""
