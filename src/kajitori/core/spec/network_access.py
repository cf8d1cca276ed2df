"""Who may reach a run and where it may go, in the words that people write: classes of addresses, a few fixed ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel, LabelKey, LabelValue
from kajitori.core.policy.traffic import EVERYWHERE, NAMESPACE, NOWHERE, ClassName, checked_cidr
from kajitori.core.traffic.address_classes import Classes, Network, without
from kajitori.core.words.suggestions import nearest
from kajitori.errors import FieldError

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


class Resolvers(Document):
    """The Pods that answer questions about names."""

    namespace: DnsLabel = "kube-system"
    """Their namespace."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] = Field(
        default_factory=lambda: {"k8s-app": "kube-dns"}
    )
    """Their labels."""


class Networking(Document):
    """What holds for every run that is restricted in who may reach it or where it may go (a run's `network`,
    `defaults.network`, `ceilings.run.network`). A restricted run has a NetworkPolicy."""

    pods: ClassName | None = None
    """The class that this cluster's own Pods are in: whoever may go there may go to every Pod, for which network
    plugins want to be asked apart from ranges. Left out: the class cluster, or else internal."""
    always: NetworkAccess = NetworkAccess()
    """Whom no run keeps out, such as the addresses that metrics are read from, and where every run may go, such as a
    mirror of packages. The resolvers of names, and the server of the first step, need not be named here, unless
    `start.server` is a name outside of the cluster."""
    dns: Resolvers = Resolvers()
    enforced: bool = True
    """Whether this cluster's network plugin heeds NetworkPolicies. If not, each run is told so. `kaji up` on its own
    cluster knows that nobody does."""


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
