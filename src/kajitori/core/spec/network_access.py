"""Who may reach a run and where it may go, in the words that people write: classes of addresses, a few fixed ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import checked_cidr
from kajitori.core.traffic.address_classes import Classes, Network, without
from kajitori.core.words.suggestions import nearest
from kajitori.errors import FieldError

EVERYWHERE = "all"
NAMESPACE = "namespace"
NOWHERE = "none"
PLACE_WORDS = (EVERYWHERE, NAMESPACE, NOWHERE)
"""Words with a fixed meaning beside address classes. NOWHERE exists on the command line only; a spec has an empty list
instead."""

Place = Annotated[str, Field(min_length=1, max_length=64)]
"""A class of policy's `traffic`, `namespace`, `all`, or a range of addresses; only policy knows which is one."""
Places = Annotated[list[Place], Field(max_length=64)]


class NetworkAccess(Document):
    """Who may reach a run's members, and where these may go. Members of a run always reach each other. Each is a list
    of classes of addresses that policy knows (`traffic`: internet, internal …), of ranges such as 10.9.0.0/16, of
    namespace (Pods of the run's own namespace), or all alone; an empty one allows nobody."""

    sources: Places | None = Field(default=None, alias="from")
    """Who may open connections to its members."""
    targets: Places | None = Field(default=None, alias="to")
    """Where its members may open connections to."""


def what_is_wrong(place: str, classes: Classes) -> tuple[str, str]:
    """Why a place is none, and the way out; nothing where it is one."""
    known = (*classes.names, NAMESPACE, EVERYWHERE)
    if any(mark in place for mark in "/.:"):
        try:
            checked_cidr(place)
        except FieldError as error:
            return error.message, error.hint
        return "", ""
    if place in known:
        return "", ""
    near = nearest(place, known)
    hint = f"did you mean {near}? " if near else "write an empty list: [] " if place == NOWHERE else ""
    hint += f"known: {', '.join(known)}; or a range such as 10.9.0.0/16"
    return f"there is no class {place!r} of addresses", hint


def is_within(place: str, limit: Sequence[str], classes: Classes, pods: str) -> bool:
    """Whether all of a place is among what a ceiling allows. pods: the class that this cluster's Pods are in."""
    if EVERYWHERE in limit or place in limit:
        return True
    if place == EVERYWHERE:
        return set(classes.names) <= set(limit)
    if place == NAMESPACE:
        return pods in limit
    return "/" in place and _covers(limit, ipaddress.ip_network(place), classes)


def _covers(limit: Sequence[str], network: Network, classes: Classes) -> bool:
    allowed = [each for name in limit for each in classes.ranges.get(name, ())]
    allowed += [ipaddress.ip_network(each) for each in limit if "/" in each]
    rest = without(network, [each for each in allowed if each.version == network.version])
    if classes.others not in limit:
        return not rest
    others = [each for name, ranges in classes.ranges.items() if name not in limit for each in ranges]
    return not any(part.overlaps(each) for part in rest for each in others if part.version == each.version)
