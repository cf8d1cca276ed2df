"""The network of Pods: this machine's own addresses, or a network namespace with an address of its own for each Pod."""

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
"""Prefix of the bridge names of all process kubelets."""
ALIAS = "kaji node "
"""Prefix of a bridge's alias, which ends with the folder of its kubelet."""
LONGEST_PREFIX = 29
USABLE = f"Pods of this kubelet need an IPv4 range of /{LONGEST_PREFIX} or larger"
NO_RANGE = (
    "the Node has no range of Pod addresses (spec.podCIDR). `kaji up` assigns one, and so does "
    "kube-controller-manager with --allocate-node-cidrs; otherwise start this node with --pod-cidr RANGE"
)
OTHER_RANGE = (
    "give this node another: --pod-cidr on a new Node, or delete its Node if the cluster assigns ranges, which then "
    "assigns a new one"
)
CLEAN_UP = "; to remove a node that is gone for good, run `kaji node uninstall --data {}`"
_ISOLATED = "-lo"
"""Suffix of the name of a Pod's second namespace."""
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


class PodNetwork(Protocol):
    """How Pods get addresses on this machine: each Pod its own, or all of them the machine's."""

    waiting: str
    """The reason for which no Pod can get its own address yet; empty if Pods can."""
    can_isolate: bool
    """Whether `isolate` works."""

    def gateway(self) -> tuple[str, str]:
        """Return (address, interface) at which Pods with addresses of their own reach this machine; empty texts while
        there are none."""
        ...

    async def start(self, living: Collection[str]) -> None:
        """Prepare the machine, and remove the networks of Pods that are not `living` (UIDs)."""

    async def use(self, cidrs: Sequence[str]) -> None:
        """Give new Pods addresses of the Node's ranges. Existing Pods keep theirs.

        Raises InvalidInput if another interface of this machine has addresses of the range.
        """

    async def attach(self, uid: str) -> tuple[str, str]:
        """Return (path of the network namespace or nothing, address) of a Pod; further calls return the same."""
        ...

    async def isolate(self, uid: str) -> str:
        """Return the path of a second network namespace of an attached Pod, which has the loopback interface only.

        Raises NetworkError if this machine's Pods have no namespaces.
        """
        ...

    async def detach(self, uid: str) -> None:
        """Remove what `attach` and `isolate` created."""

    def namespace(self, uid: str) -> str:
        """Return the file of a Pod's network namespace; empty if it has none of its own."""
        ...

    def interface(self, uid: str) -> str:
        """Return the interface on this machine that leads to the Pod; empty if it has no network of its own."""
        ...

    async def stop(self) -> None:
        """Remove what `start` prepared, if no Pod is left."""


class HostNetwork:
    """Every Pod has the machine's own address, and its ports are the machine's."""

    waiting = ""
    can_isolate = False

    def __init__(self, address: str) -> None:
        self._address = address

    def gateway(self) -> tuple[str, str]:
        return "", ""

    async def start(self, living: Collection[str]) -> None:
        return None

    async def use(self, cidrs: Sequence[str]) -> None:
        return None

    async def attach(self, uid: str) -> tuple[str, str]:
        return "", self._address

    async def isolate(self, uid: str) -> str:
        raise NetworkError("Pods on this node have no network of their own")

    async def detach(self, uid: str) -> None:
        return None

    def namespace(self, uid: str) -> str:
        return ""

    def interface(self, uid: str) -> str:
        return ""

    async def stop(self) -> None:
        return None


class NamespaceNetwork:
    """A bridge on this machine, and for each Pod a namespace connected to it. Packets that leave the machine are
    masqueraded.

    Files keep the addresses of Pods, so that they stay the same when the kubelet or the machine restarts. A file keeps
    the range as well, since Pods need it before the API server answers.
    """

    can_isolate = True

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

    def gateway(self) -> tuple[str, str]:
        return (str(_gateway_of(self._range)), self._bridge) if self._range is not None else ("", "")

    async def start(self, living: Collection[str]) -> None:
        require_namespaces()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for uid in self._leases_by_namespace():
            if uid not in living:
                await self.detach(uid)
        if self._leases_by_namespace():
            with contextlib.suppress(FileNotFoundError):
                await self.use([self._range_file.read_text()])

    async def use(self, cidrs: Sequence[str]) -> None:
        own = _usable_range(cidrs)
        async with self._lock:
            if own is None:
                self._range = None
                self.waiting = f"can't use {', '.join(cidrs)}: {USABLE}" if cidrs else NO_RANGE
                self._range_file.unlink(missing_ok=True)
                await self._release_unused_ranges(None)
            elif own != self._range:
                await self._set_up(own)
                self._range, self.waiting = own, ""

    async def _set_up(self, own: IPv4Network) -> None:
        await self._check_no_overlap(own)
        if not has_interface(self._bridge):
            await ip("link", "add", "name", self._bridge, "type", "bridge")
            await ip("link", "set", "dev", self._bridge, "alias", f"{ALIAS}{self._root}")
        gateway = _gateway_of(own)
        await ip("addr", "replace", f"{gateway}/{own.prefixlen}", "dev", self._bridge)
        # Check again: of two kubelets that start at the same moment, each sees the other now, and both withdraw.
        try:
            await self._check_no_overlap(own)
        except InvalidInput:
            await ip("addr", "del", f"{gateway}/{own.prefixlen}", "dev", self._bridge)
            raise
        earlier = {address for address in self._leases_by_namespace().values() if IPv4Address(address) not in own}
        if not earlier:
            # Otherwise the bridge has the hardware address of some Pod, which would change when that Pod ends: other
            # Pods could not reach the bridge for a while.
            await ip("link", "set", self._bridge, "address", hardware_address(str(gateway)))
        await ip("link", "set", self._bridge, "up")
        await self._release_unused_ranges(own)
        _enable_forwarding()
        if shutil.which("nft") is not None:
            await run(["nft", "-f", "-"], self._nft_rules(own, earlier).encode())
        _write(self._range_file, str(own))

    async def _release_unused_ranges(self, own: IPv4Network | None) -> None:
        """Remove the bridge's addresses in ranges that no Pod of this node uses any more, except the node's own
        range."""
        held = [IPv4Address(lease) for lease in self._leases_by_namespace().values()]
        for address in await addresses():
            used = address.network == own or any(lease in address.network for lease in held)
            if address.interface == self._bridge and not used:
                await ip("addr", "del", str(address), "dev", self._bridge)

    async def _check_no_overlap(self, own: IPv4Network) -> None:
        for address in await addresses():
            if address.interface == self._bridge or not address.network.overlaps(own):
                continue
            is_node_bridge = address.interface.startswith(BRIDGES)
            # A larger network that contains this range belongs to the site, and its routers may send the Pods' packets
            # here.
            if is_node_bridge or address.network.subnet_of(own):
                folder = address.alias.removeprefix(ALIAS) if is_node_bridge else ""
                owner = f", the node of {folder}" if folder else ""
                raise InvalidInput.one(
                    "--pod-cidr",
                    f"this machine has the Pod addresses {own} already: {address} is on {address.interface}{owner}",
                    value=str(own),
                    hint=OTHER_RANGE + (CLEAN_UP.format(folder) if folder else ""),
                )

    async def attach(self, uid: str) -> tuple[str, str]:
        async with self._lock:
            name, host_end = self._namespace_name(uid), self.interface(uid)
            path = NAMESPACES / name
            if is_up(host_end) and _is_mounted(path) and (held := self._leases_by_namespace().get(uid)):
                return str(path), held
            await self._remove_network(uid)
            own = self._range
            if own is None:
                raise NetworkError(f"network is not ready: {self.waiting}")
            address = self._lease_address(uid, own)
            await ip("netns", "add", name)
            own_end = ("name", "eth0", "address", hardware_address(address), "netns", name)
            await ip("link", "add", host_end, "type", "veth", "peer", *own_end)
            await ip("-n", name, "addr", "add", f"{address}/{own.prefixlen}", "dev", "eth0")
            await ip("-n", name, "link", "set", "lo", "up")
            await ip("-n", name, "link", "set", "eth0", "up")
            await ip("-n", name, "route", "add", "default", "via", str(_gateway_of(own)))
            # The last step, so that an interface that a killed kubelet left half-made is not up.
            await ip("link", "set", host_end, "master", self._bridge, "up")
            return str(path), address

    async def isolate(self, uid: str) -> str:
        async with self._lock:
            name = self._namespace_name(uid) + _ISOLATED
            if not _is_mounted(NAMESPACES / name):
                await ip("netns", "add", name)
            await ip("-n", name, "link", "set", "lo", "up")
            # A program that connects to its own name finds itself, too.
            await ip("-n", name, "addr", "replace", f"{self._leases_by_namespace()[uid]}/32", "dev", "lo")
            return str(NAMESPACES / name)

    async def detach(self, uid: str) -> None:
        async with self._lock:
            await self._remove_network(uid)
            with contextlib.suppress(FileNotFoundError):
                (self._folder / uid).unlink()

    async def _remove_network(self, uid: str) -> None:
        # Remove the link first. The kernel keeps a namespace while a connection in it waits for an answer, and it would
        # still answer at an address that another Pod may have by then.
        name = self._namespace_name(uid)
        own = ("link", "del", self.interface(uid)), ("netns", "del", name), ("netns", "del", name + _ISOLATED)
        for command in own:
            with contextlib.suppress(NetworkError):
                await ip(*command)

    async def stop(self) -> None:
        # A bridge that is left would answer at its addresses, even if Pods of another folder have them by then.
        async with self._lock:
            if self._leases_by_namespace():
                return
            self._range, self.waiting = None, NO_RANGE
            self._range_file.unlink(missing_ok=True)
            with contextlib.suppress(NetworkError):
                await ip("link", "del", self._bridge)
            if shutil.which("nft") is not None:
                with contextlib.suppress(NetworkError):
                    await run(["nft", "delete", "table", "ip", self._table])

    async def remove(self) -> list[str]:
        """Remove everything that belongs to this folder, even if in use; return what was removed.

        Raises Unsupported if there is something, and only root can remove it.
        """
        own = self._namespace_names()
        if not own and not has_interface(self._bridge) and not await self._has_table():
            return []
        if os.geteuid() != 0:
            raise Unsupported(
                f"only root can remove {self._bridge}", hint="run the command as root, for example with sudo"
            )
        removed = []
        for name in own:
            with contextlib.suppress(NetworkError):  # the link went with its Pod, or was never created
                await ip("link", "del", _link_name(name))
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

    def _namespace_names(self) -> list[str]:
        return [file.name for file in NAMESPACES.glob(f"{BRIDGES}{self._id}-*")]

    async def _has_table(self) -> bool:
        if os.geteuid() != 0 or shutil.which("nft") is None:
            return False
        return f"table ip {self._table}" in (await run(["nft", "list", "tables", "ip"])).decode().splitlines()

    def _namespace_name(self, uid: str) -> str:
        return f"kaji-{self._id}-{hashlib.sha256(uid.encode()).hexdigest()[:12]}"

    def namespace(self, uid: str) -> str:
        return str(NAMESPACES / self._namespace_name(uid))

    def interface(self, uid: str) -> str:
        return _link_name(self._namespace_name(uid))

    def _leases_by_namespace(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self._folder.glob("*") if not file.name.endswith(".new")}

    def _lease_address(self, uid: str, own: IPv4Network) -> str:
        """Return the Pod's address if it is in the current range, else a free one."""
        leases = self._leases_by_namespace()
        if uid in leases and IPv4Address(leases[uid]) in own:
            return leases[uid]
        taken = set(leases.values()) | {str(_gateway_of(own))}
        for host in own.hosts():
            if str(host) not in taken:
                _write(self._folder / uid, str(host))
                return str(host)
        raise NetworkError(f"all addresses of {own} are in use")

    def _nft_rules(self, own: IPv4Network, earlier: Collection[str]) -> str:
        # Create, empty and fill the table in one transaction, so repeating it changes nothing.
        table = self._table
        lines = [f"add table ip {table}", f"flush table ip {table}"]
        lines.append(f"add chain ip {table} out {{ type nat hook postrouting priority srcnat; }}")
        for source in (str(own), *sorted(earlier)):
            # By addresses, not by the bridge: rules that an earlier kubelet left for the same addresses do no harm.
            # Pods on other nodes of this machine see the caller's own address.
            other = f'ip daddr != {own} oifname != "{BRIDGES}*"'
            lines.append(f"add rule ip {table} out ip saddr {source} {other} masquerade")
        return "\n".join(lines) + "\n"


def require_namespaces() -> None:
    """Raise Unsupported if this process can't make network namespaces for Pods."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise Unsupported(
            "network namespaces for Pods need root and the program `ip`",
            hint="leave out --pod-network namespace, or run it as root on a machine with iproute2",
        )


def _link_name(namespace: str) -> str:
    """Return the name of the link's end on the machine."""
    return f"kj{namespace[-12:]}"


def _usable_range(cidrs: Sequence[str]) -> IPv4Network | None:
    """Return the first of a Node's ranges that suits Pods."""
    for cidr in cidrs:
        with contextlib.suppress(ValueError):
            found = ip_network(cidr, strict=False)
            if isinstance(found, IPv4Network) and found.prefixlen <= LONGEST_PREFIX:
                return found
    return None


def overlap(one: str, other: str) -> bool:
    """Return whether two ranges have addresses in common."""
    first, second = ip_network(one, strict=False), ip_network(other, strict=False)
    return first.version == second.version and first.overlaps(second)


def _gateway_of(own: IPv4Network) -> IPv4Address:
    return own.network_address + 1


def _write(file: Path, content: str) -> None:
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(content)
    fresh.replace(file)


def _enable_forwarding() -> None:
    _FORWARDING.write_text("1")


def _is_mounted(path: Path) -> bool:
    return os.path.ismount(path)  # Path.is_mount is true for folders only
