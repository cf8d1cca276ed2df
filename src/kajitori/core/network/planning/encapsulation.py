"""The cost of encapsulation: bytes of every packet, hence the Pods' MTU and the data's share of the link."""

from __future__ import annotations

from dataclasses import dataclass

ETHERNET_WIRE_BYTES = 38
"""Bytes around every packet on the wire: header 14, check sequence 4, preamble 8, gap 12 (IEEE 802.3)."""

TCP_BYTES = {4: 20 + 20 + 12, 6: 40 + 20 + 12}
"""Bytes of IP header, TCP header and timestamps by IP version (RFC 791, RFC 8200, RFC 9293, RFC 7323)."""

_OUTER_IP = {4: 20, 6: 40}


@dataclass(frozen=True, slots=True)
class Encapsulation:
    """A tunnel protocol, with the bytes that it adds to each packet beside the outer IP header."""

    name: str
    header_bytes: int
    parts: str
    source: str

    def overhead_bytes(self, outer: int = 4) -> int:
        """Return the bytes that it takes of the link's MTU, for outer addresses of IP version `outer`."""
        return self.header_bytes + _OUTER_IP[outer]


VXLAN = Encapsulation(
    "VXLAN", 8 + 8 + 14, "UDP 8, VXLAN 8, inner Ethernet 14", "https://www.rfc-editor.org/rfc/rfc7348"
)
GENEVE = Encapsulation(
    "Geneve", 8 + 8 + 14, "UDP 8, Geneve 8 without options, inner Ethernet 14", "https://www.rfc-editor.org/rfc/rfc8926"
)
IPIP = Encapsulation("IP-in-IP", 0, "only the outer IP header", "https://www.rfc-editor.org/rfc/rfc2003")
WIREGUARD = Encapsulation(
    "WireGuard", 8 + 16 + 16, "UDP 8, header 16, tag 16", "https://www.wireguard.com/papers/wireguard.pdf"
)

ENCAPSULATIONS = (VXLAN, GENEVE, IPIP, WIREGUARD)


@dataclass(frozen=True, slots=True)
class Throughput:
    """A Pod's MTU, the share of the link's bits that is TCP payload, and the packets per second at that share."""

    link_mtu: int
    pod_mtu: int
    goodput: float
    packets_per_gbit: float


def throughput(link_mtu: int, encapsulation: Encapsulation | None, family: int = 4) -> Throughput:
    """Return the throughput with packets of maximum size: goodput = (Pod MTU - inner IP and TCP) / (link MTU + 38).

    This is the limit that the wire sets. It excludes the processing cost of each packet; `packets_per_gbit` has the
    number of packets per second at 1 Gbit/s. `family` is the IP version of all addresses, inner and outer.
    """
    pod_mtu = link_mtu - (encapsulation.overhead_bytes(family) if encapsulation is not None else 0)
    wire = link_mtu + ETHERNET_WIRE_BYTES
    goodput = max(0, pod_mtu - TCP_BYTES[family]) / wire
    return Throughput(link_mtu, pod_mtu, goodput, 1e9 / 8 / wire)
