"""Network namespaces for one test: a node that forwards, Pods on veth pairs, and the world behind it.

The test runs in a forked process with a network and a /run/netns of its own: nothing is left when that process ends.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

import pytest
from tests.harness.waiting import wait_until
from tests.helpers.network.netns import LIBC, NEWNET, check, inside

from kajitori.agent.engines.choice import has_egress_hooks

P = ParamSpec("P")

_NEWNS = 0x00020000
_REC_PRIVATE = 0x4000 | 0x40000

needs_networks = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft") is None,
    reason="needs root (run as root), and ip and nft on $PATH (apt-get install iproute2 nftables)",
)


def leave_for_a_network_of_ones_own() -> None:
    """Move this process into an empty network namespace, with an empty /run/netns."""
    check(LIBC.unshare(NEWNET | _NEWNS))
    check(LIBC.mount(None, b"/", None, _REC_PRIVATE, None))
    Path("/run/netns").mkdir(exist_ok=True)
    check(LIBC.mount(b"none", b"/run/netns", b"tmpfs", 0, None))


def in_a_network_of_its_own(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test in a process with an empty network. Skip it if that is not permitted, or if the test skips itself."""

    @functools.wraps(test)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said, code = b"", 1
            try:
                try:
                    leave_for_a_network_of_ones_own()
                except PermissionError as error:
                    said, code = f"network namespaces are not permitted ({error}): run with CAP_SYS_ADMIN".encode(), 77
                    raise
                test(*args, **kwargs)
                code = 0
            except pytest.skip.Exception as lacking:
                said, code = str(lacking).encode(), 77
            except BaseException:
                said = said or traceback.format_exc().encode()
            finally:
                sys.stdout.flush()
                os.write(writer, said[-60_000:])
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 77:
            pytest.skip(answer)
        assert code == 0, answer or f"ended with {code}"

    return wrapped


def need_egress_hooks() -> None:
    """Skip a test if packets that leave through an interface cannot be counted there."""
    if not has_egress_hooks():
        pytest.skip("nftables egress hooks at interfaces need Linux 5.16 or newer with CONFIG_NETFILTER_EGRESS=y")


def ip(*lines: str, network: str = "") -> None:
    """Run commands of `ip`, one per line, in this network namespace or another."""
    where = ["-n", network] if network else []
    done = subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines), text=True, capture_output=True)
    assert done.returncode == 0, f"{done.stderr}\n{lines}"


def wait_for_carrier(interface: str, network: str = "") -> None:
    """Wait until an interface sends. After both of its ends are up, the kernel drops what is sent there until a worker
    of its own has noticed the carrier, which takes a while on a busy machine."""
    where = ["-n", network] if network else []
    show = ["ip", *where, "-json", "link", "show", interface]
    wait_until(lambda: json.loads(subprocess.check_output(show))[0]["operstate"] == "UP", f"{interface} has no carrier")


def nft(*arguments: str) -> str:
    """Return the output of `nft`."""
    done = subprocess.run(["nft", *arguments], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def socket_in(network: str, family: int, kind: int) -> socket.socket:
    """Return a socket of another network namespace."""
    made = inside(f"/run/netns/{network}", lambda: socket.socket(family, kind))
    made.settimeout(10)
    return made


GATEWAY_MAC = "02:00:00:00:00:01"
GATEWAYS = ("169.254.1.1", "fe80::1")


@dataclass
class Node:
    """This process's network namespace as a node. All neighbours are configured statically, so that the links carry
    only packets of the test."""

    _wires: int = 0

    def __post_init__(self) -> None:
        ip("link set lo up")
        for file in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            Path("/proc/sys/net", file).write_text("1")

    def wire(self, network: str, interface: str, *addresses: str) -> None:
        """Create a network namespace with these addresses, behind this interface of the node, which is its default
        gateway."""
        ip(f"netns add {network}")
        self._wires += 1
        mac = f"02:00:00:00:01:{self._wires:02x}"
        ip(
            f"link add name {interface} address {GATEWAY_MAC} type veth peer name eth0 address {mac} netns {network}",
            f"link set {interface} addrgenmode none",
            f"link set {interface} up",
            *(f"route replace {each} dev {interface}" for each in addresses),
            *(f"neigh replace {each} lladdr {mac} dev {interface}" for each in addresses),
        )
        ip(
            "link set lo up",
            "link set eth0 addrgenmode none",
            "link set eth0 up",
            *(f"addr add {each} dev eth0" + (" nodad" if ":" in each else "") for each in addresses),
            *(f"neigh replace {gateway} lladdr {GATEWAY_MAC} dev eth0" for gateway in GATEWAYS),
            *(f"route replace default via {gateway} dev eth0 onlink" for gateway in GATEWAYS),
            network=network,
        )

    def unwire(self, network: str, interface: str) -> None:
        """Delete the interface and the network namespace, as if the Pod had ended."""
        ip(f"link del {interface}", f"netns del {network}")


def counted_by_interface(interface: str) -> tuple[int, int, int, int]:
    """Return bytes in, packets in, bytes out and packets out of a Pod, from the kernel's statistics of its interface.
    Bytes include the Ethernet header."""
    found = json.loads(subprocess.check_output(["ip", "-s", "-j", "link", "show", interface]))[0]["stats64"]
    return found["tx"]["bytes"], found["tx"]["packets"], found["rx"]["bytes"], found["rx"]["packets"]


def without_ipv6(interface: str) -> None:
    """Disable IPv6 at the interface, so that the node sends nothing there by itself."""
    Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")
