"""What passes through the node's own network cards, and how much they could carry: where a bottleneck may be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CARDS = Path("/sys/class/net")
_MBIT_BYTES = 125_000


class Card(NamedTuple):
    """A network card, as the kernel counts for it since the node started; in is to the node."""

    name: str
    bytes_in: int
    bytes_out: int
    dropped_in: int
    """Packets that it had no room for, or that came damaged."""
    dropped_out: int
    bytes_per_second: int
    """What it carries in each direction at most; 0 where it does not say."""


def cards(folder: Path = CARDS) -> Iterator[Card]:
    """The cards of this node: devices of hardware, real or a virtual machine's; not what is made of software."""
    with contextlib.suppress(OSError):
        for place in sorted(folder.iterdir()):
            if (place / "device").exists():
                with contextlib.suppress(OSError, ValueError):  # it was taken out just now
                    yield _card(place)


def _card(place: Path) -> Card:
    def count(*names: str) -> int:
        return sum(int((place / "statistics" / name).read_text()) for name in names)

    speed = 0
    with contextlib.suppress(OSError, ValueError):  # a card without a line has no speed
        speed = max(0, int((place / "speed").read_text()))
    return Card(
        place.name,
        count("rx_bytes"),
        count("tx_bytes"),
        count("rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_crc_errors"),
        count("tx_dropped", "tx_errors"),
        speed * _MBIT_BYTES,
    )
