"""Network access of a run as users write it: address classes of the policy, CIDR ranges, and a few reserved words."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import checked_cidr
from kajitori.core.suggestions import nearest
from kajitori.core.traffic.address_classes import Classes, Network, without
from kajitori.errors import FieldError

EVERYWHERE = "all"
NAMESPACE = "namespace"
NOWHERE = "none"
PLACE_WORDS = (EVERYWHERE, NAMESPACE, NOWHERE)
"""Words with a fixed meaning beside address classes. NOWHERE exists on the command line only; a spec has an empty list
instead."""

Place = Annotated[str, Field(min_length=1, max_length=64)]
"""An address class of the policy's `traffic`, a reserved word, or a CIDR range. Only the policy knows which classes
exist."""
Places = Annotated[list[Place], Field(max_length=64)]


class NetworkAccess(Document):
    """Connections that a run's members may accept and open. Members of one run can always reach each other. Each field
    is a list of address classes (the policy's `traffic`: internet, internal and others), CIDR ranges, for example
    10.9.0.0/16, and the word namespace (Pods of the run's namespace). [all] allows every address, an empty list
    none."""

    sources: Places | None = Field(default=None, alias="from")
    """Sources that may open connections to the members."""
    targets: Places | None = Field(default=None, alias="to")
    """Targets to which the members may open connections."""


def place_fault(place: str, classes: Classes) -> tuple[str, str]:
    """Return why a place is invalid, and a hint; two empty texts if it is valid."""
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
    hint = f"did you mean {near}? " if near else "write an empty list ([]) for no access; " if place == NOWHERE else ""
    hint += f"known: {', '.join(known)}; or a range, for example 10.9.0.0/16"
    return f"there is no address class {place!r}", hint


def is_within(place: str, limit: Sequence[str], classes: Classes, pods: str) -> bool:
    """Whether the ceiling `limit` allows all addresses of a place. `pods`: the address class of the cluster's Pods."""
    if EVERYWHERE in limit or place in limit:
        return True
    if place == EVERYWHERE:
        return set(classes.names) <= set(limit)
    if place == NAMESPACE:
        return pods in limit
    return "/" in place and _contains_network(limit, ipaddress.ip_network(place), classes)


def _contains_network(limit: Sequence[str], network: Network, classes: Classes) -> bool:
    """Whether the classes and ranges in `limit` contain all addresses of a network."""
    allowed = [cidr for name in limit for cidr in classes.ranges.get(name, ())]
    allowed += [ipaddress.ip_network(place) for place in limit if "/" in place]
    rest = without(network, [other for other in allowed if other.version == network.version])
    if classes.others not in limit:
        return not rest
    forbidden = [other for name, ranges in classes.ranges.items() if name not in limit for other in ranges]
    return not any(part.overlaps(other) for part in rest for other in forbidden if part.version == other.version)
