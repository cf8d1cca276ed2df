"""Where Pods are in the network: on this machine's own addresses, or each in a namespace with an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, ip_network
from pathlib import Path
from typing import Protocol

from kajitori.embedded.kubelet.network.links import (
    NetworkError,
    addresses,
    asked,
    hardware_address,
    has_interface,
    ip,
    is_up,
    run,
)
from kajitori.errors import InvalidInput, Unsupported

NAMESPACES = Path("/run/netns")
BRIDGES = "kaji-"
"""How the bridges of all process kubelets begin."""
ALIAS = "kaji node "
"""What is written at a bridge, before the folder of its kubelet."""
LONGEST_PREFIX = 29
USABLE = f"Pods of this kubelet have addresses of IPv4, and need a range of /{LONGEST_PREFIX} or larger"
NO_RANGE = (
    "the Node has no range of Pod addresses (spec.podCIDR). `kaji up` gives each one, and so does "
    "kube-controller-manager with --allocate-node-cidrs; where nobody does, start this node with --pod-cidr RANGE"
)
OTHER_RANGE = (
    "give this node another: --pod-cidr on a new Node, or delete its Node where the cluster gives ranges, which then "
    "gives it one anew"
)
CLEAN_UP = "; a node that is gone for good is taken away with `kaji node uninstall --data {}`"
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


class PodNetwork(Protocol):
    """How Pods have addresses of their own on this machine, or that of the machine."""

    waiting: str
    """Why no Pod can have an address of its own yet; empty where they can."""

    async def start(self, living: Collection[str]) -> None:
        """Prepares the machine, and takes away what belongs to Pods (by UID) that are not living any more."""

    async def use(self, cidrs: Sequence[str]) -> None:
        """Pods that come from now on have addresses of the Node's ranges. Those that are there keep theirs.

        Raises InvalidInput where somebody else has these addresses on this machine.
        """

    async def attach(self, uid: str) -> tuple[str, str]:
        """(path of the network namespace or nothing, address) of a Pod: the same at every call."""
        ...

    async def detach(self, uid: str) -> None:
        """Takes away what `attach` made."""

    def namespace(self, uid: str) -> str:
        """The file of a Pod's network namespace; empty if it has none of its own."""
        ...

    def interface(self, uid: str) -> str:
        """The end of a Pod's network that is on the machine; empty where it has none of its own."""
        ...

    async def stop(self) -> None:
        """Takes away what `start` prepared, where no Pod is left."""


class HostNetwork:
    """Every Pod has the machine's own address, and its ports are the machine's."""

    waiting = ""

    def __init__(self, address: str) -> None:
        self._address = address

    async def start(self, living: Collection[str]) -> None:
        return None

    async def use(self, cidrs: Sequence[str]) -> None:
        return None

    async def attach(self, uid: str) -> tuple[str, str]:
        return "", self._address

    async def detach(self, uid: str) -> None:
        return None

    def namespace(self, uid: str) -> str:
        return ""

    def interface(self, uid: str) -> str:
        return ""

    async def stop(self) -> None:
        return None


class NamespaceNetwork:
    """A bridge on this machine, and for each Pod a namespace that hangs on it. What leaves the machine is masqueraded.

    Which Pod has which address is kept in files, so that a kubelet that comes back, and a machine that restarts, agree.
    So is the range that they are of: Pods are looked after before the API server has said it again.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / "addresses"
        self._range_file = root / "pod-cidr"
        self._root = root.resolve()
        self._id = hashlib.sha256(str(self._folder.resolve()).encode()).hexdigest()[:8]
        self._bridge = f"{BRIDGES}{self._id}"
        self._table = f"kajitori_{self._id}"
        self._range: IPv4Network | None = None
        self._lock = asyncio.Lock()
        self.waiting = NO_RANGE

    async def start(self, living: Collection[str]) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Unsupported(
                "network namespaces for Pods need root and the program `ip`",
                hint="leave pod_network at `host`, or run the kubelet as root",
            )
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for uid in self._leases():
            if uid not in living:
                await self.detach(uid)
        if self._leases():
            with contextlib.suppress(FileNotFoundError):
                await self.use([self._range_file.read_text()])

    async def use(self, cidrs: Sequence[str]) -> None:
        own = _usable(cidrs)
        async with self._lock:
            if own is None:
                self._range = None
                self.waiting = f"of {', '.join(cidrs)} it can use none: {USABLE}" if cidrs else NO_RANGE
                self._range_file.unlink(missing_ok=True)
                await self._leave_to_others(None)
            elif own != self._range:
                await self._set_up(own)
                self._range, self.waiting = own, ""

    async def _set_up(self, own: IPv4Network) -> None:
        await self._refuse_what_others_have(own)
        if not has_interface(self._bridge):
            await ip("link", "add", "name", self._bridge, "type", "bridge")
            await ip("link", "set", "dev", self._bridge, "alias", f"{ALIAS}{self._root}")
        gateway = _gateway(own)
        await ip("addr", "replace", f"{gateway}/{own.prefixlen}", "dev", self._bridge)
        # Once more: two that start at the same moment see each other now, and neither stays.
        try:
            await self._refuse_what_others_have(own)
        except InvalidInput:
            await ip("addr", "del", f"{gateway}/{own.prefixlen}", "dev", self._bridge)
            raise
        earlier = {address for address in self._leases().values() if IPv4Address(address) not in own}
        if not earlier:
            # Else it is that of some Pod, and another one when that goes: members would not reach us for a while.
            await ip("link", "set", self._bridge, "address", hardware_address(str(gateway)))
        await ip("link", "set", self._bridge, "up")
        await self._leave_to_others(own)
        _let_packets_through()
        if shutil.which("nft") is not None:
            await run(["nft", "-f", "-"], self._rules(own, earlier).encode())
        _write(self._range_file, str(own))

    async def _leave_to_others(self, own: IPv4Network | None) -> None:
        """The bridge leaves ranges in which no Pod of this node has an address any more, all but its own."""
        held = [IPv4Address(each) for each in self._leases().values()]
        for address in await addresses():
            used = address.network == own or any(each in address.network for each in held)
            if address.interface == self._bridge and not used:
                await ip("addr", "del", str(address), "dev", self._bridge)

    async def _refuse_what_others_have(self, own: IPv4Network) -> None:
        for address in await addresses():
            if address.interface == self._bridge or not address.network.overlaps(own):
                continue
            of_a_node = address.interface.startswith(BRIDGES)
            # A network that this one is a part of is a site's: its routers may well lead here what is for Pods.
            if of_a_node or address.network.subnet_of(own):
                folder = address.alias.removeprefix(ALIAS) if of_a_node else ""
                whose = f", the node of {folder}" if folder else ""
                raise InvalidInput.one(
                    "--pod-cidr",
                    f"this machine has the Pod addresses {own} already: {address} is on {address.interface}{whose}",
                    value=str(own),
                    hint=OTHER_RANGE + (CLEAN_UP.format(folder) if folder else ""),
                )

    async def attach(self, uid: str) -> tuple[str, str]:
        async with self._lock:
            name, host_end = self._name(uid), self.interface(uid)
            path = NAMESPACES / name
            if is_up(host_end) and _is_mounted(path) and (held := self._leases().get(uid)):
                return str(path), held
            await self._take_down(uid)
            own = self._range
            if own is None:
                raise NetworkError(f"network is not ready: {self.waiting}")
            address = self._lease(uid, own)
            await ip("netns", "add", name)
            own_end = ("name", "eth0", "address", hardware_address(address), "netns", name)
            await ip("link", "add", host_end, "type", "veth", "peer", *own_end)
            await ip("-n", name, "addr", "add", f"{address}/{own.prefixlen}", "dev", "eth0")
            await ip("-n", name, "link", "set", "lo", "up")
            await ip("-n", name, "link", "set", "eth0", "up")
            await ip("-n", name, "route", "add", "default", "via", str(_gateway(own)))
            # Last, and in one step: what was left half-made by a kubelet that died is not up.
            await ip("link", "set", host_end, "master", self._bridge, "up")
            return str(path), address

    async def detach(self, uid: str) -> None:
        async with self._lock:
            await self._take_down(uid)
            with contextlib.suppress(FileNotFoundError):
                (self._folder / uid).unlink()

    async def _take_down(self, uid: str) -> None:
        # Cut off first: a namespace lives on for as long as a connection in it waits for an answer, and would go on
        # answering at an address that is somebody else's by then.
        for command in (("link", "del", self.interface(uid)), ("netns", "del", self._name(uid))):
            with contextlib.suppress(NetworkError):
                await ip(*command)

    async def stop(self) -> None:
        # A bridge that stays answers for its addresses, also where another folder's Pods have them by then.
        async with self._lock:
            if self._leases():
                return
            self._range, self.waiting = None, NO_RANGE
            self._range_file.unlink(missing_ok=True)
            with contextlib.suppress(NetworkError):
                await ip("link", "del", self._bridge)
            if shutil.which("nft") is not None:
                with contextlib.suppress(NetworkError):
                    await run(["nft", "delete", "table", "ip", self._table])

    async def remove(self) -> list[str]:
        """Takes away everything of this folder's, whatever hangs on it; answers what was there.

        Raises Unsupported where there is something, and only root can take it away.
        """
        own = self._namespaces()
        if not own and not has_interface(self._bridge) and not await self._has_table():
            return []
        if os.geteuid() != 0:
            raise Unsupported(f"only root can take {self._bridge} away", hint="run it as root, such as with sudo")
        removed = []
        for name in own:
            with contextlib.suppress(NetworkError):  # it is gone with its Pod, or was never made
                await ip("link", "del", _interface(name))
            await ip("netns", "del", name)
            removed.append(f"network namespace {name}")
        if has_interface(self._bridge):
            for port in await asked("link", "show", "master", self._bridge):
                await ip("link", "del", port["ifname"])
            await ip("link", "del", self._bridge)
            removed.append(f"bridge {self._bridge}")
        if await self._has_table():
            await run(["nft", "delete", "table", "ip", self._table])
            removed.append(f"nftables table {self._table}")
        return removed

    def _namespaces(self) -> list[str]:
        return [each.name for each in NAMESPACES.glob(f"{BRIDGES}{self._id}-*")]

    async def _has_table(self) -> bool:
        if os.geteuid() != 0 or shutil.which("nft") is None:
            return False
        return f"table ip {self._table}" in (await run(["nft", "list", "tables", "ip"])).decode().splitlines()

    def _name(self, uid: str) -> str:
        return f"kaji-{self._id}-{hashlib.sha256(uid.encode()).hexdigest()[:12]}"

    def namespace(self, uid: str) -> str:
        return str(NAMESPACES / self._name(uid))

    def interface(self, uid: str) -> str:
        return _interface(self._name(uid))

    def _leases(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self._folder.glob("*") if not file.name.endswith(".new")}

    def _lease(self, uid: str, own: IPv4Network) -> str:
        """The address that it has, unless that is of a range which this node has no more; else a free one."""
        leases = self._leases()
        if uid in leases and IPv4Address(leases[uid]) in own:
            return leases[uid]
        taken = set(leases.values()) | {str(_gateway(own))}
        for host in own.hosts():
            if str(host) not in taken:
                _write(self._folder / uid, str(host))
                return str(host)
        raise NetworkError(f"all addresses of {own} are in use")

    def _rules(self, own: IPv4Network, earlier: Collection[str]) -> str:
        # Added, emptied and filled in one transaction: the same however often it is done.
        table = self._table
        lines = [f"add table ip {table}", f"flush table ip {table}"]
        lines.append(f"add chain ip {table} out {{ type nat hook postrouting priority srcnat; }}")
        for source in (str(own), *sorted(earlier)):
            # By addresses, not by the bridge: what an earlier kubelet left for the same ones does no harm then. Pods of
            # this machine's other nodes see who calls them.
            other = f'ip daddr != {own} oifname != "{BRIDGES}*"'
            lines.append(f"add rule ip {table} out ip saddr {source} {other} masquerade")
        return "\n".join(lines) + "\n"


def _interface(namespace: str) -> str:
    """The end of a Pod's cable that is on the machine."""
    return f"kj{namespace[-12:]}"


def _usable(cidrs: Sequence[str]) -> IPv4Network | None:
    """The first of a Node's ranges that Pods can have addresses of."""
    for cidr in cidrs:
        with contextlib.suppress(ValueError):
            found = ip_network(cidr, strict=False)
            if isinstance(found, IPv4Network) and found.prefixlen <= LONGEST_PREFIX:
                return found
    return None


def overlap(one: str, other: str) -> bool:
    """Whether two ranges have addresses in common."""
    first, second = ip_network(one, strict=False), ip_network(other, strict=False)
    return first.version == second.version and first.overlaps(second)


def _gateway(own: IPv4Network) -> IPv4Address:
    return own.network_address + 1


def _write(file: Path, content: str) -> None:
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(content)
    fresh.replace(file)


def _let_packets_through() -> None:
    _FORWARDING.write_text("1")


def _is_mounted(path: Path) -> bool:
    return os.path.ismount(path)  # Path.is_mount says so of folders alone
