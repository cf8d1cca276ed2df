"""Policy for network traffic accounting: the policy file's section `traffic`, as types."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Cidr, DnsLabel, DurationAboveZero
from kajitori.core.spec.network_access import PLACE_WORDS
from kajitori.core.traffic.address_classes import Classes, Network
from kajitori.errors import FieldError

INTERNAL = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
    *("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4"),
    *("fc00::/7", "fe80::/10", "ff00::/8", "::/127"),
)
"""Addresses that are not routed on the internet: private, shared (RFC 6598), link-local, loopback, multicast and
reserved ones."""

MOST_CLASSES = 15
_MOST_CIDRS = 1000
_LONGEST_NAME = 32


def _class_name(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        raise FieldError(f"{text!r:.80} is too long for a class name", f"use at most {_LONGEST_NAME} characters")
    if text in PLACE_WORDS:
        raise FieldError(f"{text} is a reserved word in the network access of runs", "choose another name")
    return text


ClassName = Annotated[DnsLabel, AfterValidator(_class_name)]


class TrafficPolicy(Document):
    """Traffic accounting by each node's agent (`kaji agent`), which counts bytes and packets of every Pod in both
    directions, by the class of the remote address."""

    classes: dict[ClassName, Annotated[list[Cidr], Field(min_length=1)]] = Field(
        default_factory=lambda: {"internal": list(INTERNAL)}, max_length=MOST_CLASSES
    )
    """Address classes, each with its IPv4 and IPv6 ranges. If one range contains another, the smaller range wins:
    `storage: [10.9.0.0/16]` takes these addresses out of `internal: [10.0.0.0/8]`."""
    others: ClassName = "internet"
    """Class of all other addresses."""
    engine: Literal["auto", "interface", "sets", "iptables"] = "auto"
    """The method that counts packets. interface: on the network interface of each Pod, whatever its address. sets: by
    Pod address, with nftables sets. iptables: with rules for each Pod in the mangle table; iptables-exporter can read
    their comments. auto: interface if the node supports it, else sets."""
    every_seconds: DurationAboveZero = Field(default=15, alias="every")
    """Interval at which counters are read."""
    report_seconds: DurationAboveZero = Field(default=60, alias="report")
    """Interval at which each node reports its totals to the Web API, if one is configured. The figures of
    `kaji traffic` are up to this old."""
    keep_runs_seconds: DurationAboveZero = Field(default=3600, alias="keepRuns")
    """How long a node keeps the totals of a run after the run's last Pod there. The totals of the run's namespace and
    user keep including them."""

    @field_validator("classes")
    @classmethod
    def _each_range_once(cls, classes: dict[str, list[str]]) -> dict[str, list[str]]:
        number = sum(map(len, classes.values()))
        if number > _MOST_CIDRS:
            raise FieldError(f"there are {number} ranges; at most {_MOST_CIDRS} are allowed", "use larger ranges")
        class_of: dict[str, str] = {}
        for name, ranges in classes.items():
            for cidr in ranges:
                if class_of.setdefault(cidr, name) != name:
                    raise FieldError(f"{cidr} is in both {class_of[cidr]} and {name}", "leave it in one of them")
        return classes

    @model_validator(mode="after")
    def _others_is_no_class(self) -> TrafficPolicy:
        if self.others in self.classes:
            message = f"{self.others} is the class of all other addresses (others), but classes gives it ranges as well"
            raise FieldError(message, "give one of them another name")
        return self

    @property
    def address_classes(self) -> Classes:
        """The address classes without overlaps."""
        networks: dict[str, list[Network]] = {
            name: [ipaddress.ip_network(cidr) for cidr in ranges] for name, ranges in self.classes.items()
        }
        return Classes.of(networks, self.others)
