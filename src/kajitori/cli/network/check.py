"""The checks of `kaji network check` on a machine: connections, rules and routes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kajitori.core.network.hubs.probes import Outcome, Place, Probe
from kajitori.core.network.hubs.rules import MARK

if TYPE_CHECKING:
    from kajitori.core.network.hubs.render import Rendered, Route
    from kajitori.core.network.registry.model import Address, Networks

_AT_ONCE = 64
_UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check: the expected state and the state that was found."""

    where: str
    what: str
    expected: str
    found: str
    right: bool


def own_addresses(targets: Iterable[Address]) -> set[Address]:
    """Return this machine's own addresses on the routes to these targets. No packet is sent."""
    found: set[Address] = set()
    for target in targets:
        family = socket.AF_INET6 if target.version == 6 else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((str(target), 9))
            found.add(ip_address(asking.getsockname()[0]))
    return found


def try_all(probes: Sequence[Probe], patience_seconds: float) -> list[Found]:
    """Try all connections at the same time and return their results in order."""

    async def run() -> list[Found]:
        turns = asyncio.Semaphore(_AT_ONCE)
        return list(await asyncio.gather(*(_try_probe(probe, patience_seconds, turns) for probe in probes)))

    return asyncio.run(run())


_EXPECTED = {True: "reached", False: "not reached"}


async def _try_probe(probe: Probe, patience_seconds: float, turns: asyncio.Semaphore) -> Found:
    async with turns:
        outcome, words = await _connect(str(probe.address), probe.port, patience_seconds)
    what = f"{probe.what} at {probe.endpoint}"
    return Found(probe.cluster, what, _EXPECTED[probe.passes], words, probe.is_right(outcome))


async def _connect(address: str, port: int, patience_seconds: float) -> tuple[Outcome, str]:
    try:
        async with asyncio.timeout(patience_seconds):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return "refused", "reached, and nobody listens there"
    except (TimeoutError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _UNREACHABLE:
            return "unreachable", f"not reached: {error.strerror}"
        return "silent", f"not reached: nothing came back in {patience_seconds:g} s"
    source = writer.get_extra_info("sockname")[0]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return "answered", f"reached, from {source}"


def look_at_host(rendered: Rendered) -> Iterator[Found]:
    """Check whether rules, routes and forwarding on this machine are as rendered for it."""
    yield _check_rules(rendered)
    for version in (4, 6):
        routes = [route for route in rendered.routes if route.to.version == version]
        known = _kernel_routes(version) if routes else {}
        for route in routes:
            yield _check_route(route, known.get(str(route.to)))
        if routes:
            path = "ipv4/ip_forward" if version == 4 else "ipv6/conf/all/forwarding"
            with contextlib.suppress(OSError):
                on = Path("/proc/sys/net", path).read_text().strip() == "1"
                yield Found("this host", f"forwarding of IPv{version}", "on", "on" if on else "off", right=on)


def _check_rules(rendered: Rendered) -> Found:
    what, expected = f"rules in table {rendered.table}", f"those of {rendered.digest}"
    if shutil.which("nft") is None:
        return Found("this host", what, expected, "unknown: there is no nft here", right=False)
    done = subprocess.run(["nft", "-j", "list", "table", "inet", rendered.table], capture_output=True, text=True)
    if done.returncode != 0:
        denied = "not permitted" in done.stderr
        found = "unknown: looking at them needs root" if denied else "none: there is no such table"
        return Found("this host", what, expected, found, right=False)
    rules = [entry["rule"] for entry in json.loads(done.stdout)["nftables"] if "rule" in entry]
    comments = (rule.get("comment", "") for rule in rules)
    marks = [comment.removeprefix(MARK) for comment in comments if comment.startswith(MARK)]
    found = f"those of {', '.join(marks) or 'somebody else'}"
    if marks != [rendered.digest]:
        return Found("this host", what, expected, found, right=False)
    # The mark is in one of these rules; other rules may have been removed or added.
    counts, wanted = Counter(rule["chain"] for rule in rules), rendered.rules_by_chain
    changed = sorted(name for name in counts.keys() | wanted.keys() if counts[name] != wanted[name])
    changes = f", changed by somebody in {', '.join(changed)}" if changed else ""
    return Found("this host", what, expected, found + changes, right=not changed)


def dropped(rendered: Rendered) -> dict[str, int]:
    """Return the packets dropped since the rules were loaded, by counter; empty if the counters can't be read."""
    if shutil.which("nft") is None:
        return {}
    done = subprocess.run(["nft", "-j", "list", "counters", "table", "inet", rendered.table], capture_output=True)
    if done.returncode != 0:
        return {}
    counters = [entry["counter"] for entry in json.loads(done.stdout)["nftables"] if "counter" in entry]
    return {
        counter["name"]: counter["packets"]
        for counter in counters
        if counter["name"] in rendered.refusing and counter["packets"]
    }


def _kernel_routes(version: int) -> dict[str, dict[str, Any]]:
    """Return the kernel's routes by range."""
    if shutil.which("ip") is None:
        return {}
    done = subprocess.run(["ip", "-j", f"-{version}", "route", "show"], capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    return {str(ip_network(route["dst"])): route for route in found if route.get("dst") != "default"}


def _check_route(route: Route, known: dict[str, Any] | None) -> Found:
    what = f"route to {route.to}"
    expected = "nowhere" if not route.via else f"via {', '.join(str(hop) for hop in route.via)}"
    if known is None:
        return Found("this host", what, expected, "none", right=False)
    hops = [known] if "gateway" in known else known.get("nexthops", [])
    gateways = sorted(hop["gateway"] for hop in hops if "gateway" in hop)
    nowhere = known.get("type") == "blackhole"
    found = "nowhere" if nowhere else f"via {', '.join(gateways)}" if gateways else f"by {known.get('dev', 'itself')}"
    right = nowhere if not route.via else gateways == sorted(str(hop) for hop in route.via)
    return Found("this host", what, expected, found, right)


def rendered_for(networks: Networks, place: Place) -> Rendered | None:
    """Return the rules and routes for a hub or a NAT host; None for any other place."""
    from kajitori.core.network.hubs.render import render_hub, render_nat

    if place.kind == "hub":
        return render_hub(networks)
    return render_nat(networks, place.name) if place.kind == "nat" else None
