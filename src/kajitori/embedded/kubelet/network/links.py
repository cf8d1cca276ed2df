"""This machine's network, as the program `ip` and the kernel show it."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec

from kajitori.errors import KajitoriError

_SIOCGIFFLAGS, _IFF_UP = 0x8913, 0x1
"""From Linux' if.h: the ioctl that reads an interface's flags, and the flag for an interface that is up."""


class NetworkError(KajitoriError):
    """A Pod's network could not be set up; the kubelet tries again."""

    code = "FailedCreatePodSandBox"


@dataclass(frozen=True)
class Address:
    """One of this machine's own addresses, and the network of its interface."""

    interface: str
    address: str
    network: IPv4Network
    alias: str
    """The interface's alias, a text that anybody may set."""

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


async def addresses() -> list[Address]:
    """Return all IPv4 addresses of this machine."""
    aliases = {link["ifname"]: link.get("ifalias", "") for link in await asked("link", "show")}
    return [
        Address(
            interface=link["ifname"],
            address=entry["local"],
            network=IPv4Network((entry["local"], entry["prefixlen"]), strict=False),
            alias=aliases.get(link["ifname"], ""),
        )
        for link in await asked("-4", "addr", "show")
        for entry in link.get("addr_info", ())
    ]


def hardware_address(address: str) -> str:
    """Return a hardware address that depends on the IP address only. The neighbours' caches then stay right if another
    Pod gets the address."""
    return "0a:58:" + IPv4Address(address).packed.hex(":")


def has_interface(name: str) -> bool:
    # Not /sys/class/net, which shows the network namespace in which it was mounted.
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def is_up(interface: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16sh14x", interface.encode(), 0))
        except OSError:
            return False
    return bool(struct.unpack("16sh14x", answer)[1] & _IFF_UP)


async def ip(*arguments: str) -> None:
    await run(["ip", *arguments])


async def asked(*arguments: str) -> list[dict[str, Any]]:
    # An interface that disappears meanwhile is an empty object.
    return [entry for entry in msgspec.json.decode(await run(["ip", "-j", *arguments]) or b"[]") if entry]


async def run(command: list[str], stdin: bytes | None = None) -> bytes:
    """Run a program and return its output. Raises NetworkError with its error output."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    # No pipe for empty input: uvloop fails to write to a pipe, even nothing, if the program has already ended.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing if stdin is None else pipe, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate(stdin)
    if process.returncode:
        raise NetworkError(f"{' '.join(command)}: {errors.decode(errors='replace').strip()}")
    return output
