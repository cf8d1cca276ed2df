"""Limits of the Web API for its callers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from kajitori.configuration.option_faults import raise_all
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault


@dataclass(frozen=True, kw_only=True)
class WebLimits:
    """Limits of the Web API. `--limit NAME=VALUE` sets one of them, with dashes in place of underscores."""

    connections: int = 16_384
    """Open connections. The limit is lower if the process may not open that many files. Further ones are closed at
    once."""
    connections_per_address: int = 4_096
    """Open connections of one address (for IPv6, of one /64). 0: no limit, for a server behind a proxy."""
    unauthenticated: int = 1_024
    """Connections without valid credentials so far. A further one closes the oldest of the address that has most of
    them."""
    unauthenticated_per_address: int = 256
    """The same for one address. 0: no limit."""
    header_seconds: float = 10.0
    """Time limit of a TLS handshake, and of a request's header from its first byte or the start of the connection."""
    body_seconds: float = 30.0
    """Time limit of a request's body. Each part of an upload has 300 seconds."""
    body_bytes: int = 64 << 20
    """Size of all request bodies in memory. One caller may use a quarter of it. Uploads have limits of their own."""
    wrong_tokens: int = 600
    """Refused tokens per minute, over all addresses that sent any. Beyond that, such addresses' tokens are not sent to
    the API server."""
    wrong_tokens_per_address: int = 60
    """The same for one address. 0: no limit."""
    board_reads: int = 600
    """Reads of the public board per minute without sign-in, over all addresses that read it again and again."""
    board_reads_per_address: int = 60
    """The same for one address. 0: no limit."""
    recheck_seconds: float = 60.0
    """Interval at which credentials and rights of callers with open streams are checked again by the API server."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> WebLimits:
        """Return the limits that `NAME=VALUE` texts set, with defaults for the others. Raises InvalidInput."""
        known = {limit.name.replace("_", "-"): limit for limit in fields(cls)}
        found: dict[str, Any] = {}
        faults = []
        for text in texts:
            name, _, value = text.partition("=")
            if name not in known:
                hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
                faults.append(Fault("--limit", f"there is no limit {name!r:.80}", text, hint))
            elif not value.isascii() or not value.isdigit() or int(value) < _minimum_of(name):
                hint = f"use a whole number, {_minimum_of(name)} or more"
                faults.append(Fault("--limit", f"{name} cannot be {value!r:.80}", text, hint))
            else:
                found[known[name].name] = float(value) if name.endswith("-seconds") else int(value)
        raise_all(faults)
        return cls(**found)


def _minimum_of(limit: str) -> int:
    """Return the minimum of a limit. For body-bytes, the largest body must fit into the quarter of one caller."""
    return {"body-bytes": 4 << 20}.get(limit, 0 if limit.endswith("-per-address") else 1)
