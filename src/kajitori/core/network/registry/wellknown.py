"""Address ranges with a meaning of their own, and what happens to a cluster that uses them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network

from kajitori.core.network.registry.model import Network


@dataclass(frozen=True, slots=True)
class WellKnown:
    """A range, its meaning, and the source. An `impossible` range cannot be routed between hosts at all."""

    network: Network
    what: str
    source: str
    impossible: bool = False


def _unusable_range(cidr: str, what: str, source: str) -> WellKnown:
    return WellKnown(ip_network(cidr), what, source, impossible=True)


def _range_in_use(cidr: str, what: str, source: str) -> WellKnown:
    return WellKnown(ip_network(cidr), what, source)


_IANA4 = "https://www.iana.org/assignments/iana-ipv4-special-registry"
_IANA6 = "https://www.iana.org/assignments/iana-ipv6-special-registry"
ULA = "https://www.rfc-editor.org/rfc/rfc4193"
_GOOGLE_METADATA = "https://cloud.google.com/compute/docs/metadata/querying-metadata"
_DOCKER = "https://docs.docker.com/engine/network/drivers/bridge/"
_KUBEADM = "https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-init/"
_AKS = "https://learn.microsoft.com/azure/aks/concepts-network-legacy-cni"

WELL_KNOWN: tuple[WellKnown, ...] = (
    _unusable_range("0.0.0.0/8", "'this network' (RFC 791)", _IANA4),
    _unusable_range("127.0.0.0/8", "loopback (RFC 1122)", _IANA4),
    _unusable_range("169.254.0.0/16", "link-local (RFC 3927), where clouds have their metadata service", _IANA4),
    _unusable_range("224.0.0.0/4", "multicast (RFC 5771)", _IANA4),
    _unusable_range("240.0.0.0/4", "reserved (RFC 1112)", _IANA4),
    _unusable_range("::/127", "unspecified and loopback (RFC 4291)", _IANA6),
    _unusable_range("100::/64", "for discarding (RFC 6666)", _IANA6),
    _unusable_range("::ffff:0:0/96", "IPv4-mapped (RFC 4291)", _IANA6),
    _unusable_range("fe80::/10", "link-local (RFC 4291)", _IANA6),
    _unusable_range("ff00::/8", "multicast (RFC 4291)", _IANA6),
    _unusable_range(
        "fd00:ec2::/32", "the metadata service of AWS", "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/"
    ),
    _unusable_range("fd20:ce::254/128", "the metadata service of Google Cloud", _GOOGLE_METADATA),
    _range_in_use(
        "100.64.0.0/10",
        "shared with carriers (RFC 6598); some clouds and VPNs use it",
        _IANA4,
    ),
    _range_in_use("192.0.0.0/24", "IETF protocol assignments (RFC 6890)", _IANA4),
    _range_in_use("192.0.2.0/24", "for documentation (RFC 5737); AKS refuses it", _AKS),
    _range_in_use("198.18.0.0/15", "for benchmarks (RFC 2544)", _IANA4),
    _range_in_use("198.51.100.0/24", "for documentation (RFC 5737)", _IANA4),
    _range_in_use("203.0.113.0/24", "for documentation (RFC 5737)", _IANA4),
    _range_in_use("2001::/23", "IETF protocol assignments (RFC 2928)", _IANA6),
    _range_in_use("2001:db8::/32", "for documentation (RFC 3849)", _IANA6),
    _range_in_use("3fff::/20", "for documentation (RFC 9637)", _IANA6),
    _range_in_use("2002::/16", "6to4, which uses relays of other operators (RFC 3056)", _IANA6),
    _range_in_use("64:ff9b::/96", "NAT64 translates it to IPv4 (RFC 6052)", _IANA6),
    _range_in_use("64:ff9b:1::/48", "local translation to IPv4 (RFC 8215)", _IANA6),
    _range_in_use("5f00::/16", "SRv6 segments (RFC 9602)", _IANA6),
    _range_in_use("fec0::/10", "site-local, deprecated: systems handle it differently (RFC 3879)", _IANA6),
    _range_in_use("fc00::/8", "the undefined half of the unique local addresses: use fd00::/8", ULA),
    _range_in_use("172.17.0.0/16", "docker's default bridge on every machine with docker", _DOCKER),
    _range_in_use("172.30.0.0/16", "refused by AKS", _AKS),
    _range_in_use("172.31.0.0/16", "the default VPC of AWS; refused by AKS", _AKS),
    _range_in_use("10.96.0.0/12", "the default Service range of kubeadm", _KUBEADM),
    _range_in_use("10.244.0.0/16", "the default Pod range of flannel", "https://github.com/flannel-io/flannel"),
    _range_in_use("192.168.122.0/24", "libvirt's default network", "https://libvirt.org/formatnetwork.html"),
)
