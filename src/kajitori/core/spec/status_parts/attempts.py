"""Attempts of a run in its status: the one that is planned or runs, and what ended the one before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kajitori.core.formats.node_lists import expand, expand_ranks


class Attempt(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One start of the gang. It is stored before its first Pod is created (rule 2)."""

    number: int
    nodes: str
    """Node of each rank in `ranks`, in rank order, as a compact list like `gpu-[001-016]`."""
    ranks: str = ""
    """Ranks of the attempt, as ranges (`0-3,7`); empty means all ranks."""
    template: str = ""
    """The resolved Pod template (`metadata` and `spec`), the same for every rank, as JSON text. Only Kajitori reads it,
    and an API server copies and stores one text far more cheaply than a tree of a hundred values."""
    launcher: str = ""
    """Launcher at the time of planning, as `core.pods.manifests.launcher_of` returns it."""
    world_size: int = 0
    """Number of members of the run at the time of planning; 0 means the number of ranks."""
    bind_direct: bool = False
    """Whether Kajitori itself binds the members, without the scheduler."""
    port: int = 0
    """Rendezvous port of this attempt; 0 if the run needs none."""
    created: bool = False
    """Whether all Pods have been created. If so, a missing Pod is lost, and not created again."""
    planned_at: str = ""
    started_at: str = ""
    """Time at which all members ran; empty until then. Times are RFC 3339 in UTC."""

    def node_by_rank(self) -> dict[int, str]:
        """Return the node of every rank that the attempt covers."""
        nodes = expand(self.nodes)
        return dict(zip(expand_ranks(self.ranks) if self.ranks else range(len(nodes)), nodes, strict=False))

    @property
    def pod_template(self) -> Mapping[str, Any]:
        """The template as a document; empty if there is none. Attempts share it, so callers must not change it.

        Raises ValueError if the text is not a document. A status that passed `status_check` has no such text.
        """
        return _parsed(self.template) if self.template else {}


@lru_cache(maxsize=1024)
def _parsed(template: str) -> Mapping[str, Any]:
    return msgspec.json.decode(template, type=dict[str, Any])


def template_text(template: Mapping[str, Any]) -> str:
    """Return a Pod template as text for an attempt. Equal templates have equal texts, an empty one has no text."""
    return msgspec.json.encode(template, order="sorted").decode() if template else ""


class Setback(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The last failure or interruption of an attempt, or of a sweep's member, after which the run went on."""

    reason: str
    message: str = ""
    attempt: int = 0
    at: str = ""


class Resize(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The nodes of an elastic gang's next attempt. They are stored before the present attempt is ended, or when it has
    lost members, and stay reserved until the next attempt is planned."""

    nodes: str
    """Nodes in rank order, as a compact list like `gpu-[001-016]`."""
    fewest: int
    """Minimum number of these nodes for a start. If fewer are usable, the reservation is dropped."""
    since: str = ""


class Ran(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Running time of a run in all attempts that are over. The expected length of later runs of its kind and the usage
    of its user are derived from it."""

    seconds: int
    """Time from the start of all members to the end, without the time between attempts. For a sweep or a service: from
    the first start to the end. For an elastic gang it is scaled to the full size: an hour with half of the members
    counts as half an hour."""
    until: str
    """Time at which the last of these attempts ended."""
