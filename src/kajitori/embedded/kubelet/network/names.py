"""Names by which Pods of a namespace find each other. In a cluster its DNS answers them; here they are lines of each
Pod's /etc/hosts.

A program without root can't serve DNS on port 53, which is the only one that /etc/resolv.conf can mean. A hosts file
needs nothing but the mount that each Pod has anyway, and it can be changed in place while the Pod runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kajitori.embedded.kubelet.cluster import Endpoints

BEGIN = "# names of other Pods, kept up to date by the process kubelet"
END = "# end of these names"
MAX_ADDRESSES = 20
"""Largest number of addresses of one name. Programs use the first one that answers."""


class NameBook:
    """The endpoints of all headless Services, by namespace."""

    def __init__(self, hidden_prefix: str = "") -> None:
        """Services whose names begin with `hidden_prefix` are networks: only their host names are names of Pods, and
        only for Pods in the network."""
        self._hidden_prefix = hidden_prefix
        self._known: dict[str, Sequence[Endpoints]] = {}

    def update(self, namespace: str, endpoints: Sequence[Endpoints]) -> None:
        """Replace all endpoints of a namespace."""
        self._known[namespace] = endpoints

    def text(self, namespace: str, networks: Sequence[str]) -> str:
        """Return the lines for a Pod that is in these networks (names of their Services).

        A name in a network takes precedence over the name of a Service, and a name in an earlier network over one in a
        later network.
        """
        known = self._known.get(namespace, ())
        by_name: dict[str, list[str]] = {}
        for network in networks:
            found = _grouped((host, address) for one in known if one.service == network for host, address in one.hosts)
            by_name |= {name: found[name] for name in found.keys() - by_name.keys()}
        services = _grouped(
            (one.service, address) for one in known if not self._is_hidden(one.service) for _, address in one.hosts
        )
        by_name |= {name: services[name] for name in services.keys() - by_name.keys() - {"localhost"}}
        lines = [f"{address}\t{name}\n" for name in sorted(by_name) for address in by_name[name][:MAX_ADDRESSES]]
        return "".join(lines)

    def _is_hidden(self, service: str) -> bool:
        return bool(self._hidden_prefix) and service.startswith(self._hidden_prefix)


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return the different addresses of each name."""
    found: dict[str, dict[str, None]] = {}
    for name, address in pairs:
        if name:
            found.setdefault(name, {})[address] = None
    return {name: list(addresses) for name, addresses in found.items()}


def with_names(names: str, rest: str) -> str:
    """Return a hosts file with these lines first: of several lines with a name, programs take the first one."""
    return f"{BEGIN}\n{names}{END}\n{rest}"


def rewrite(hosts_file: Path, names: str) -> None:
    """Change the names in a Pod's hosts file. It is written in place, since containers have mounted this very file."""
    with contextlib.suppress(FileNotFoundError), hosts_file.open("r+", encoding="utf-8") as file:
        before = file.read()
        _, marker, rest = before.partition(f"{END}\n")
        after = with_names(names, rest)
        if marker and after != before:
            os.pwrite(file.fileno(), after.encode(), 0)
            os.ftruncate(file.fileno(), len(after.encode()))
