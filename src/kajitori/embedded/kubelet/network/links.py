"""This machine's network, as the program `ip` and the kernel tell it."""

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
"""Of Linux' if.h: what asks for an interface's flags, and one of them."""


class NetworkError(KajitoriError):
    """A Pod's network could not be set up; it is tried again."""

    code = "FailedCreatePodSandBox"


@dataclass(frozen=True)
class Address:
    """One of this machine's own addresses, and the network that is reached by it."""

    interface: str
    address: str
    network: IPv4Network
    alias: str
    """What somebody wrote at the interface."""

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


async def addresses() -> list[Address]:
    """All of IPv4."""
    aliases = {link["ifname"]: link.get("ifalias", "") for link in await asked("link", "show")}
    return [
        Address(
            interface=link["ifname"],
            address=each["local"],
            network=IPv4Network((each["local"], each["prefixlen"]), strict=False),
            alias=aliases.get(link["ifname"], ""),
        )
        for link in await asked("-4", "addr", "show")
        for each in link.get("addr_info", ())
    ]


def hardware_address(address: str) -> str:
    """The same for every Pod that has this address, so that what others remember of its last owner is never wrong."""
    return "0a:58:" + IPv4Address(address).packed.hex(":")


def has_interface(name: str) -> bool:
    # Not /sys/class/net: that shows the network of whoever mounted it.
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
    # An interface that goes meanwhile is an empty object.
    return [each for each in msgspec.json.decode(await run(["ip", "-j", *arguments]) or b"[]") if each]


async def run(command: list[str], stdin: bytes | None = None) -> bytes:
    """What the program printed. Raises NetworkError with what it complained of."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    # No pipe that nobody reads: uvloop refuses to write to it, be it nothing, where the program has ended already.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing if stdin is None else pipe, stdout=pipe, stderr=pipe
    )
    printed, said = await process.communicate(stdin)
    if process.returncode:
        raise NetworkError(f"{' '.join(command)}: {said.decode(errors='replace').strip()}")
    return printed
