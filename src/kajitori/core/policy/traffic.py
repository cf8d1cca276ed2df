"""What the operators decide about counting traffic: the policy file's section `traffic`, as types."""

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
"""Addresses that no router of the internet forwards: private ones, those that providers and clusters share among
themselves, those of a single wire or machine, groups."""

MOST_CLASSES = 15
_MOST_CIDRS = 1000
_LONGEST_NAME = 32


def _class_name(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        raise FieldError(f"{text!r:.80} is too long for the name of a class", f"at most {_LONGEST_NAME} characters")
    if text in PLACE_WORDS:
        raise FieldError(f"{text} has a meaning of its own where runs say where they may go", "choose another name")
    return text


ClassName = Annotated[DnsLabel, AfterValidator(_class_name)]


class TrafficPolicy(Document):
    """What each node's agent (`kaji agent`) counts: bytes and packets of every Pod, in and out, by the class of the
    address at the other end."""

    classes: dict[ClassName, Annotated[list[Cidr], Field(min_length=1)]] = Field(
        default_factory=lambda: {"internal": list(INTERNAL)}, max_length=MOST_CLASSES
    )
    """Classes of addresses, each with its ranges, IPv4 and IPv6. Where ranges lie in each other the smaller one counts:
    `storage: [10.9.0.0/16]` takes those addresses out of `internal: [10.0.0.0/8]`."""
    others: ClassName = "internet"
    """The class of every other address."""
    engine: Literal["auto", "interface", "sets", "iptables"] = "auto"
    """How packets are counted. interface: at each Pod's own interface on its node, whatever its address. sets: by the
    Pods' addresses, in nftables. iptables: by rules for each Pod in the table mangle, whose comments iptables-exporter
    reads. auto: interface where the node can, else sets."""
    every_seconds: DurationAboveZero = Field(default=15, alias="every")
    """How often counters are read."""
    report_seconds: DurationAboveZero = Field(default=60, alias="report")
    """How often each node's totals are told to the Web API, where there is one to tell; `kaji traffic` is so old."""
    keep_runs_seconds: DurationAboveZero = Field(default=3600, alias="keepRuns")
    """So long after its last Pod on a node the totals of a run can still be read there. They stay in those of its
    namespace and user."""

    @field_validator("classes")
    @classmethod
    def _each_range_once(cls, classes: dict[str, list[str]]) -> dict[str, list[str]]:
        number = sum(map(len, classes.values()))
        if number > _MOST_CIDRS:
            raise FieldError(f"{number} ranges are too many: at most {_MOST_CIDRS}", "write fewer and larger ones")
        taken: dict[str, str] = {}
        for name, ranges in classes.items():
            for each in ranges:
                if taken.setdefault(each, name) != name:
                    raise FieldError(f"{each} is in {taken[each]} and in {name}", "leave it in one of them")
        return classes

    @model_validator(mode="after")
    def _others_is_no_class(self) -> TrafficPolicy:
        if self.others in self.classes:
            message = f"{self.others} is the class of all other addresses, and has ranges, too"
            raise FieldError(message, "give one of them another name")
        return self

    @property
    def address_classes(self) -> Classes:
        """The same as packets are counted by."""
        found: dict[str, list[Network]] = {
            name: [ipaddress.ip_network(each) for each in ranges] for name, ranges in self.classes.items()
        }
        return Classes.of(found, self.others)
