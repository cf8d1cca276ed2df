"""Where Pods are in the network: on this machine's own addresses, or each in a namespace with an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import ipaddress
import os
import shutil
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from kajitori.errors import KajitoriError, Unsupported

NAMESPACES = Path("/run/netns")
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_SIOCGIFFLAGS, _IFF_UP = 0x8913, 0x1
"""Of Linux' if.h: what asks for an interface's flags, and one of them."""


class NetworkError(KajitoriError):
    """A Pod's network could not be set up; it is tried again."""

    code = "FailedCreatePodSandBox"


class PodNetwork(Protocol):
    async def start(self, living: Collection[str]) -> None:
        """Prepares the machine, and takes away what belongs to Pods (by UID) that are not living any more."""

    async def attach(self, uid: str) -> tuple[str, str]:
        """(path of the network namespace or nothing, address) of a Pod: the same at every call."""
        ...

    async def detach(self, uid: str) -> None:
        """Takes away what `attach` made."""

    def interface(self, uid: str) -> str:
        """The end of a Pod's network that is on the machine; empty where it has none of its own."""
        ...

    async def stop(self) -> None:
        """Takes away what `start` prepared, where no Pod is left."""


class HostNetwork:
    """Every Pod has the machine's own address, and its ports are the machine's."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def start(self, living: Collection[str]) -> None:
        return None

    async def attach(self, uid: str) -> tuple[str, str]:
        return "", self._address

    async def detach(self, uid: str) -> None:
        return None

    def interface(self, uid: str) -> str:
        return ""

    async def stop(self) -> None:
        return None


class NamespaceNetwork:
    """A bridge on this machine, and for each Pod a namespace that hangs on it. What leaves the machine is masqueraded.

    Which Pod has which address is kept in files, so that a kubelet that comes back, and a machine that restarts, agree.
    """

    def __init__(self, folder: Path, cidr: str) -> None:
        self._folder = folder
        self._cidr = ipaddress.IPv4Network(cidr)
        self._id = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
        self._bridge = f"kaji-{self._id}"
        self._table = f"kajitori_{self._id}"
        self._gateway = self._cidr.network_address + 1
        self._lock = asyncio.Lock()

    async def start(self, living: Collection[str]) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Unsupported(
                "network namespaces for Pods need root and the program `ip`",
                hint="leave pod_network at `host`, or run the kubelet as root",
            )
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _has_interface(self._bridge):
            await _ip("link", "add", "name", self._bridge, "type", "bridge")
        await _ip("addr", "replace", f"{self._gateway}/{self._cidr.prefixlen}", "dev", self._bridge)
        # Else it is that of some Pod, and another one when that goes: members would not reach us for a while.
        await _ip("link", "set", self._bridge, "address", _hardware_address(str(self._gateway)), "up")
        _let_packets_through()
        if shutil.which("nft") is not None:
            await _run(["nft", "-f", "-"], self._rules().encode())
        for uid in self._leases():
            if uid not in living:
                await self.detach(uid)

    async def attach(self, uid: str) -> tuple[str, str]:
        async with self._lock:
            address = self._lease(uid)
            name, host_end = self._name(uid), self.interface(uid)
            path = NAMESPACES / name
            if _is_up(host_end) and _is_mounted(path):
                return str(path), address
            await self._take_down(uid)
            await _ip("netns", "add", name)
            own_end = ("name", "eth0", "address", _hardware_address(address), "netns", name)
            await _ip("link", "add", host_end, "type", "veth", "peer", *own_end)
            await _ip("-n", name, "addr", "add", f"{address}/{self._cidr.prefixlen}", "dev", "eth0")
            await _ip("-n", name, "link", "set", "lo", "up")
            await _ip("-n", name, "link", "set", "eth0", "up")
            await _ip("-n", name, "route", "add", "default", "via", str(self._gateway))
            # Last, and in one step: what was left half-made by a kubelet that died is not up.
            await _ip("link", "set", host_end, "master", self._bridge, "up")
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
                await _ip(*command)

    async def stop(self) -> None:
        # A bridge that stays answers for its addresses, also where another folder's Pods have them by then.
        async with self._lock:
            if self._leases():
                return
            with contextlib.suppress(NetworkError):
                await _ip("link", "del", self._bridge)
            if shutil.which("nft") is not None:
                with contextlib.suppress(NetworkError):
                    await _run(["nft", "delete", "table", "ip", self._table])

    def _name(self, uid: str) -> str:
        return f"kaji-{self._id}-{hashlib.sha256(uid.encode()).hexdigest()[:12]}"

    def interface(self, uid: str) -> str:
        return f"kj{self._name(uid)[-12:]}"

    def _leases(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self._folder.glob("*") if not file.name.endswith(".new")}

    def _lease(self, uid: str) -> str:
        leases = self._leases()
        if uid in leases:
            return leases[uid]
        taken = set(leases.values()) | {str(self._gateway)}
        for host in self._cidr.hosts():
            if str(host) not in taken:
                fresh = self._folder / f"{uid}.new"
                fresh.write_text(str(host))
                fresh.replace(self._folder / uid)
                return str(host)
        raise NetworkError(f"all addresses of {self._cidr} are in use")

    def _rules(self) -> str:
        # Added, emptied and filled in one transaction: the same however often it is done.
        table = self._table
        return (
            f"add table ip {table}\n"
            f"flush table ip {table}\n"
            f"add chain ip {table} out {{ type nat hook postrouting priority srcnat; }}\n"
            # By addresses, not by the bridge: what an earlier kubelet left for the same ones does no harm then.
            f"add rule ip {table} out ip saddr {self._cidr} ip daddr != {self._cidr} masquerade\n"
        )


def _hardware_address(address: str) -> str:
    """The same for every Pod that has this address, so that what others remember of its last owner is never wrong."""
    return "0a:58:" + ipaddress.IPv4Address(address).packed.hex(":")


def _let_packets_through() -> None:
    _FORWARDING.write_text("1")


def _is_mounted(path: Path) -> bool:
    return os.path.ismount(path)  # Path.is_mount says so of folders alone


def _has_interface(name: str) -> bool:
    # Not /sys/class/net: that shows the network of whoever mounted it.
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def _is_up(interface: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16sh14x", interface.encode(), 0))
        except OSError:
            return False
    return bool(struct.unpack("16sh14x", answer)[1] & _IFF_UP)


async def _ip(*arguments: str) -> None:
    await _run(["ip", *arguments])


async def _run(command: list[str], stdin: bytes | None = None) -> None:
    """Raises NetworkError with what the program said."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    # No pipe that nobody reads: uvloop refuses to write to it, be it nothing, where the program has ended already.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing if stdin is None else pipe, stdout=nothing, stderr=pipe
    )
    _, said = await process.communicate(stdin)
    if process.returncode:
        raise NetworkError(f"{' '.join(command)}: {said.decode(errors='replace').strip()}")
