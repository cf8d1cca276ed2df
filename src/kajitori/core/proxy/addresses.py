"""Addresses of programs: `/proxy/NAMESPACE/RUN/PORT/` on a server, and an origin of its own for each program.

A browser gives every page the rights of its origin. A program's page must not have the origin of Kajitori's own page,
because its scripts could then send requests to the Web API in the name of the person who looks at it. So browsers reach
programs at other origins: one for each program (`https://*.runs.example.org`), or one for all of them
(`https://programs.example.org`), at which people may open only their own runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from kajitori.core.naming.names import RUN_NAME_MAX_LENGTH

PREFIX = "/proxy/"
LOOPBACK = "localhost"
"""Browsers resolve every name below it to this machine, without DNS (RFC 6761)."""
MAX_LABEL = 63
MAX_RANK = 99_999
_HASH_LENGTH = 32
_SEGMENT = re.compile(r"([1-9][0-9]{0,4})(?:-(0|[1-9][0-9]{0,4}))?", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SEPARATOR = "--"


@dataclass(frozen=True, slots=True)
class Target:
    """A port of one member of a run."""

    namespace: str
    run: str
    port: int
    rank: int = 0

    @property
    def segment(self) -> str:
        """Port and rank as addresses contain them: `8888` for rank 0, `8888-3` for rank 3."""
        return f"{self.port}-{self.rank}" if self.rank else str(self.port)

    @property
    def path(self) -> str:
        """The path of the target on a server, without the slash at its end."""
        return f"{PREFIX}{self.namespace}/{self.run}/{self.segment}"


@dataclass(frozen=True, slots=True)
class HashedRun:
    """A port of a run, by the hash of the run's names: these are too long for a host name, or ambiguous in it."""

    digest: str
    port: int
    rank: int


@dataclass(frozen=True, slots=True)
class ProgramOrigins:
    """The origins at which browsers find programs."""

    scheme: str
    host: str
    """The host name of all programs; with `is_own`, the domain below which each program has a host name."""
    port: int | None
    """None: for a name below localhost, the port at which the browser reached the server; else the scheme's."""
    is_own: bool
    """Whether each program has its own origin."""

    @property
    def is_local(self) -> bool:
        """Whether the names lead to the browser's own machine."""
        return self.host == LOOPBACK or self.host.endswith(f".{LOOPBACK}")

    def origin_of(self, target: Target, port: int | None) -> str:
        """Return the origin of a target for a browser that reached the server at `port`."""
        host = f"{host_label(target)}.{self.host}" if self.is_own else self.host
        chosen = self.port if self.port is not None else port if self.is_local else None
        default = 443 if self.scheme == "https" else 80
        return f"{self.scheme}://{host}" + (f":{chosen}" if chosen not in (None, default) else "")

    def label_of(self, host: str) -> str | None:
        """Return the label of a program in a Host header, an empty text for the shared origin, None for other hosts."""
        name, port = split_host(host)
        default = 443 if self.scheme == "https" else 80
        if (self.port is not None or not self.is_local) and (port or default) != (self.port or default):
            return None
        if not self.is_own:
            return "" if name == self.host else None
        label, dot, parent = name.partition(".")
        return label if dot and parent == self.host and label else None


def parse_origins(text: str) -> ProgramOrigins:
    """Return the origins that an operator wrote, such as `https://*.runs.example.org`. Raises ValueError."""
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_own = host.startswith("*.")
    name = host.removeprefix("*.")
    if parts.scheme not in ("http", "https") or parts.path not in ("", "/") or parts.query or parts.username:
        raise ValueError("it is not the address of a server")
    if not name or "*" in name or not all(_NAME.fullmatch(label) for label in name.split(".")):
        raise ValueError("the host is not a name, or has a * elsewhere than at its beginning")
    return ProgramOrigins(parts.scheme, name, parts.port, is_own)


def split_host(host: str) -> tuple[str, int | None]:
    """Return name and port of a Host header."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None


def read_path(path: str) -> tuple[Target, str] | None:
    """Return the target of a path below PREFIX, and the rest after it; None if the path names no target.

    The rest is empty if even the slash after the port is missing.
    """
    if not path.startswith(PREFIX):
        return None
    namespace, _, after = path.removeprefix(PREFIX).partition("/")
    run, _, after = after.partition("/")
    segment, slash, rest = after.partition("/")
    target = _target_of_segment(namespace, run, segment)
    return (target, f"{slash}{rest}") if target is not None else None


def read_target(text: str) -> Target | None:
    """Return the target that `NAMESPACE/RUN/PORT` names."""
    found = read_path(f"{PREFIX}{text}")
    return found[0] if found is not None and not found[1] else None


def host_label(target: Target) -> str:
    """Return the first label of a target's host name: `8888--nb--vision`, with a hash if the names do not fit."""
    plain = _SEPARATOR.join((target.segment, target.run, target.namespace))
    if len(plain) <= MAX_LABEL and plain.count(_SEPARATOR) == 2 and "---" not in plain:
        return plain
    return f"{target.segment}{_SEPARATOR}{_digest(target.namespace, target.run)}"


def read_label(label: str) -> Target | HashedRun | None:
    """Return the target that a label of a host name stands for, or None if it is no label of a program."""
    parts = label.split(_SEPARATOR)
    if len(parts) == 3:
        return _target_of_segment(parts[2], parts[1], parts[0])
    found = _SEGMENT.fullmatch(parts[0])
    if len(parts) != 2 or found is None or len(parts[1]) != _HASH_LENGTH:
        return None
    return HashedRun(parts[1], int(found[1]), int(found[2] or 0))


def find_hashed(hashed: HashedRun, runs: Iterable[tuple[str, str]]) -> Target | None:
    """Return the target of a hash, among runs given as namespace and name."""
    for namespace, name in runs:
        if _digest(namespace, name) == hashed.digest:
            return Target(namespace, name, hashed.port, hashed.rank)
    return None


def _target_of_segment(namespace: str, run: str, segment: str) -> Target | None:
    found = _SEGMENT.fullmatch(segment)
    if found is None or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(run) or len(run) > RUN_NAME_MAX_LENGTH:
        return None
    port, rank = int(found[1]), int(found[2] or 0)
    return Target(namespace, run, port, rank) if port <= 65_535 and rank <= MAX_RANK else None


def _digest(namespace: str, run: str) -> str:
    return hashlib.sha256(f"{namespace}/{run}".encode()).hexdigest()[:_HASH_LENGTH]
