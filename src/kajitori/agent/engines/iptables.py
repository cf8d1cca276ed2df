"""Counting by rules for each Pod in the table mangle, with comments that iptables-exporter and similar programs read.

For clusters that have such dashboards already: `iptables-exporter kajitori traffic=internet-out pod=team/name …`. A
packet passes the rules of all Pods until it meets its own, so the cost grows with the number of Pods. A Pod's rules are
in two chains of its own, named by a random number; chains that are no longer reached can still be read.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from typing import NamedTuple

from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import (
    DIRECTIONS,
    HOST,
    Count,
    Counter,
    CounterName,
    Direction,
    Kind,
    Pod,
    read_counter_name,
)
from kajitori.errors import Unavailable, Unsupported

_PROGRAMS = {4: "iptables", 6: "ip6tables"}
_FAMILIES = {4: AF_INET, 6: AF_INET6}
_HOOKS: dict[str, tuple[Direction, ...]] = {"FORWARD": ("out", "in"), "INPUT": ("out",), "OUTPUT": ("in",)}
"""Directions of Pods' packets at each hook: INPUT has those that Pods send to the node."""
_HOST_HOOKS: dict[str, tuple[str, Direction]] = {"INPUT": ("! -i lo", "in"), "OUTPUT": ("! -o lo", "out")}
"""Match and direction of the packets of the node's own programs at each hook."""
_JUMPS = tuple(f"-A {hook} " for hook in _HOOKS)
_OWN: dict[Direction, str] = {"out": "-s", "in": "-d"}
"""The option that matches the Pod's own address."""
_OTHER: dict[Direction, str] = {"out": "-d", "in": "-s"}
"""The option that matches the address that decides the traffic's class."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_RULE = re.compile(
    r'\[(\d+):(\d+)\] -A KAJI-(\d+)-(?:out|in) .*--comment "iptables-exporter kajitori traffic=(\S+)-(out|in) '
    r'pod=\S+ uid=([^\s"]+)'
)
_OURS = re.compile(r"KAJI-([A-Z]+|\d+-(?:out|in))\b")
_MAX_NUMBER = 2**31
_TIMEOUT_SECONDS = 60
_NAME_LENGTH = 60
"""Characters of a Pod's name in a comment, which has at most 255; the UID in it identifies the Pod."""


class _Key(NamedTuple):
    """The chains of one Pod or the node, for one IP version."""

    uid: str
    version: int


class IptablesEngine:
    """Chains `KAJI-…` in the table mangle, and one jump in each of FORWARD, INPUT and OUTPUT."""

    name = "iptables"
    missing = 0

    def __init__(self) -> None:
        missing = [f"{name}-restore" for name in _PROGRAMS.values() if shutil.which(f"{name}-restore") is None]
        if missing:
            message = f"{' and '.join(missing)} is not installed"
            raise Unsupported(message, hint="install iptables, or choose another engine")
        self._boot = _BOOT.read_text().strip()
        self._numbers: dict[_Key, int] = {}
        self._wanted: dict[_Key, tuple[str, ...]] = {}
        self._classes: Classes | None = None
        self._expected: dict[int, list[str]] = {}
        """Our chains and rules after our last change, by IP version."""

    def takes(self, pod: Pod) -> bool:
        return bool(pod.addresses)

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        wanted: dict[_Key, tuple[str, ...]] = {_Key(HOST, version): () for version in _PROGRAMS}
        names = {HOST: "-"} | {uid: f"{pod.namespace}/{pod.name}"[:_NAME_LENGTH] for uid, pod in pods.items()}
        for uid, pod in pods.items():
            for address in pod.addresses:
                key = _Key(uid, ipaddress.ip_address(address).version)
                wanted[key] = (*wanted.get(key, ()), address)
        found = {version: _own_lines(version) for version in _PROGRAMS}
        first = self._classes is None
        damaged = not first and found != self._expected
        if not damaged and classes == self._classes and wanted == self._wanted:
            return False
        self._classes = None  # after a failure, everything is checked again
        numbers: dict[_Key, int] = {}
        for version in _PROGRAMS:
            addresses = {key: wanted[key] for key in wanted if key.version == version}
            chains = _rules_by_chain(found[version])
            made, script = self._make_chains(addresses, chains, _chain_numbers(found[version]), names, classes)
            numbers |= made
            script += _hook_statements(found[version], addresses, numbers)
            script += _delete_empty(chains, numbers.values())
            _restore(version, script)
        self._numbers, self._wanted, self._classes = numbers, wanted, classes
        self._expected = {version: _own_lines(version) for version in _PROGRAMS}
        return damaged

    def _make_chains(
        self,
        wanted: Collection[_Key],
        chains: Mapping[str, list[str]],
        adopted: Mapping[str, int],
        names: Mapping[str, str],
        classes: Classes,
    ) -> tuple[dict[_Key, int], list[str]]:
        """Return the number of each Pod's chains, and statements that create the chains that are missing or differ.

        `chains` are the existing ones, and `adopted` the numbers of chains that an earlier agent left, by UID.
        """
        numbers: dict[_Key, int] = {}
        script = []
        for key in wanted:
            number = self._numbers.get(key) or adopted.get(key.uid, 0)
            rules = {
                direction: _chain_rules(number, direction, key, names[key.uid], classes) for direction in DIRECTIONS
            }
            if not number or any(chains.get(_chain_name(number, way)) != rules[way] for way in DIRECTIONS):
                number = secrets.randbelow(_MAX_NUMBER - 1) + 1
                for direction in DIRECTIONS:
                    script += [f":{_chain_name(number, direction)} - [0:0]"]
                    script += _chain_rules(number, direction, key, names[key.uid], classes)
            numbers[key] = number
        return numbers, script

    def read(self) -> dict[str, Counter]:
        counters: dict[str, Counter] = {}
        for version in _PROGRAMS:
            for match in _RULE.finditer(_save(version)):
                packets, size, number, name, direction, uid = match.groups()
                kind = Kind(name, "in" if direction == "in" else "out")
                counter = str(CounterName(uid, int(number), kind))
                before = counters.get(counter, Counter(self._boot, Count()))
                counters[counter] = Counter(self._boot, before.value.plus(Count(int(size), int(packets))))
        return counters

    def forget(self, names: Collection[str]) -> None:
        numbers = {parsed.interface for name in names if (parsed := read_counter_name(name)) is not None}
        if not numbers:
            return
        for version in _PROGRAMS:
            existing = _rules_by_chain(_own_lines(version))
            chains = [_chain_name(number, direction) for number in numbers for direction in DIRECTIONS]
            _restore(version, _delete_chains(chain for chain in chains if chain in existing))
            self._expected[version] = _own_lines(version)

    def stop(self) -> bool:
        exists = False
        for version in _PROGRAMS:
            found = _own_lines(version)
            exists = exists or bool(found)
            _restore(version, [f"-D{line[2:]}" for line in found if line.startswith(_JUMPS)])
        self._numbers, self._wanted, self._classes = {}, {}, None
        return exists

    def uninstall(self) -> bool:
        exists = self.stop()
        for version in _PROGRAMS:
            _restore(version, _delete_chains(_rules_by_chain(_own_lines(version))))
        return exists


def _chain_rules(number: int, direction: Direction, key: _Key, name: str, classes: Classes) -> list[str]:
    """Return the rules of a Pod's chain, as iptables-save writes them."""
    start = f"-A {_chain_name(number, direction)}"
    rules = []
    for name_of_class in classes.ranges:
        for network in classes.version(name_of_class, key.version):
            text = f"{inet_ntop(_FAMILIES[key.version], network.network_address.packed)}/{network.prefixlen}"
            match = f"{_OTHER[direction]} {text} " if network.prefixlen else ""
            # The range makes every comment unique: exporters ignore rules with equal comments.
            what = f"traffic={name_of_class}-{direction} pod={name} uid={key.uid} range={text}"
            comment = f"iptables-exporter kajitori {what}"
            rules.append(f'{start} {match}-m comment --comment "{comment}" -j RETURN')
    comment = f"iptables-exporter kajitori traffic={classes.others}-{direction} pod={name} uid={key.uid}"
    return [*rules, f'{start} -m comment --comment "{comment}" -j RETURN']


def _hook_statements(
    found: list[str], wanted: Mapping[_Key, tuple[str, ...]], numbers: Mapping[_Key, int]
) -> list[str]:
    """Return statements that send packets through the chains of these Pods and no others."""
    script = []
    for hook, directions in _HOOKS.items():
        script.append(f":KAJI-{hook} - [0:0]")
        for key, addresses in wanted.items():
            script += [
                f"-A KAJI-{hook} {_OWN[direction]} {address} -j {_chain_name(numbers[key], direction)}"
                for address in addresses
                for direction in directions
            ]
        for key in wanted:
            if key.uid == HOST and hook in _HOST_HOOKS:
                match, direction = _HOST_HOOKS[hook]
                script.append(f"-A KAJI-{hook} {match} -j {_chain_name(numbers[key], direction)}")
        if f"-A {hook} -j KAJI-{hook}" not in found:
            script.append(f"-A {hook} -j KAJI-{hook}")
    return script


def _delete_empty(chains: Mapping[str, list[str]], numbers: Collection[int]) -> list[str]:
    """Return statements that delete unused chains without rules: another program deleted their rules and counts."""
    used = {_chain_name(number, direction) for number in numbers for direction in DIRECTIONS}
    empty = (name for name, rules in chains.items() if not rules and name not in used)
    return [f"-X {name}" for name in empty if name.endswith(DIRECTIONS)]


def _chain_name(number: int, direction: Direction) -> str:
    return f"KAJI-{number}-{direction}"


def _rules_by_chain(ours: Iterable[str]) -> dict[str, list[str]]:
    """Return the rules of each of our chains. A chain may be empty, for example if no Pod uses this IP version."""
    found: dict[str, list[str]] = {}
    for line in ours:
        if line.startswith(":"):
            found.setdefault(line[1:], [])
        elif _OURS.fullmatch(chain := line.split()[1]):
            found.setdefault(chain, []).append(line)
    return found


def _chain_numbers(rules: Iterable[str]) -> dict[str, int]:
    """Return the number of the chains that packets of each Pod pass now, by UID, as an earlier agent left them."""
    uids = {match[3]: match[6] for rule in rules if (match := _RULE.match(f"[0:0] {rule}"))}
    jumps = (rule.rsplit(" -j KAJI-", 1) for rule in rules if rule.startswith("-A KAJI-") and " -j KAJI-" in rule)
    numbers = {target.partition("-")[0] for _, target in jumps}
    return {uids[number]: int(number) for number in numbers if number in uids}


def _delete_chains(chains: Iterable[str]) -> list[str]:
    names = list(chains)
    return [*(f"-F {name}" for name in names), *(f"-X {name}" for name in names)]


def _own_lines(version: int) -> list[str]:
    """Return our chains, as `:NAME`, and our rules without their counters."""
    found = []
    for line in _save(version).splitlines():
        if line.startswith(":"):
            found.append(line.split()[0])
        elif line.startswith("["):
            found.append(line.partition("] ")[2])
    return [line for line in found if _OURS.search(line)]


def _save(version: int) -> str:
    return _run([f"{_PROGRAMS[version]}-save", "-c", "-t", "mangle"], "")


def _restore(version: int, script: list[str]) -> None:
    if script:
        text = "\n".join(["*mangle", *script, "COMMIT", ""])
        _run([f"{_PROGRAMS[version]}-restore", "--noflush", "-w", "5"], text)


def _run(command: list[str], text: str) -> str:
    try:
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]} failed: {error}") from error
    if done.returncode:
        raise Unavailable(f"{command[0]} failed: {' '.join(done.stderr.split())[:500]}")
    return done.stdout
