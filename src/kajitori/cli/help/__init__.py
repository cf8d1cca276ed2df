"""Descriptions of `kaji` itself for people, shells and programs: completion, help, and the shapes of its output. Begin
with `contract.Contract`."""
