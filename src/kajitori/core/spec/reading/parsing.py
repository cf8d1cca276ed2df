"""Reads a Run's spec."""

from __future__ import annotations

from kajitori.core.documents.faults import read
from kajitori.core.spec.reading.conflicts import conflicts
from kajitori.core.spec.run import RunSpec
from kajitori.errors import InvalidInput


def parse_spec(document: object, *, where: str = "spec") -> RunSpec:
    """Read a spec, and check everything that can be checked without a policy and a cluster.

    Raises InvalidInput with all faults at once: unknown fields, wrong types, unreadable amounts, and fields that
    contradict each other.
    """
    spec, faults, broken = read(RunSpec, document, where)
    if spec is not None:
        faults += [fault for part, fault in conflicts(spec, where) if part not in broken]
    if faults or spec is None:
        raise InvalidInput(faults)
    return spec
