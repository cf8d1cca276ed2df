"""The node's InfiniBand and RoCE ports: their rate, and errors of their links, from sysfs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from kajitori.agent.telemetry.background import BackgroundCall

FOLDER = Path("/sys/class/infiniband")
EVERY_SECONDS = 60.0
"""Time between two readings. A counter may cost a call of the card's firmware."""
PATIENCE_SECONDS = 0.05
"""Time for which a sample waits for a reading. A card that hangs blocks its reader, but not the agent."""
MAX_PORTS = 32
_ACTIVE = "ACTIVE"
_ERRORS = (
    *("counters/symbol_error", "counters/link_error_recovery", "counters/port_rcv_errors"),
    *("counters/local_link_integrity_errors", "hw_counters/rx_icrc_encapsulated"),
)
"""Errors of the link itself. Discards and retransmissions have other causes as well, such as congestion."""
_DOWNED = "counters/link_downed"


class Ports:
    """The ports of this node, read once a minute."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._known: Mapping[str, float] = {}
        self._read_at = -math.inf
        self._reading: BackgroundCall[dict[str, float]] | None = None

    def read(self, now: float) -> Mapping[str, float]:
        """Return the values by name of the quantity, at most a minute old. There are none without such ports. `now` is
        in seconds."""
        if self._reading is None and now - self._read_at >= EVERY_SECONDS:
            self._read_at = now
            if not self._folder.is_dir():
                self._known = {}
                return self._known
            self._reading = BackgroundCall(lambda: _readings_of(self._folder))
        if self._reading is not None:
            with contextlib.suppress(TimeoutError):
                self._known = self._reading.result(PATIENCE_SECONDS)
                self._reading = None
        return self._known


def _readings_of(folder: Path) -> dict[str, float]:
    rates, errors, downed = [], 0.0, 0.0
    for port in list(_active_ports(folder))[:MAX_PORTS]:
        errors += sum(_leading_number(port / name) for name in _ERRORS)
        downed += _leading_number(port / _DOWNED)
        rate = _leading_number(port / "rate")
        if _text_of(port / "state").endswith(_ACTIVE) and rate:
            rates.append(rate)
    if not rates:
        return {}
    return {"link.rate": min(rates), "link.ports": float(len(rates)), "link.errors": errors, "link.downed": downed}


def _active_ports(folder: Path) -> Iterator[Path]:
    for device in sorted(folder.iterdir()):
        with contextlib.suppress(OSError):
            yield from sorted((device / "ports").iterdir())


def _leading_number(file: Path) -> float:
    """Return the number at the beginning of a file, as in `400 Gb/sec (4X NDR)`; 0 if there is none."""
    with contextlib.suppress(ValueError, IndexError):
        return float(_text_of(file).split()[0])
    return 0.0


def _text_of(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text(errors="replace").strip()
    return ""
