"""The agent's metrics in Prometheus' text format: tens of thousands of series, without an object for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest

from kajitori.agent.counting import Counting, Health
from kajitori.core.traffic.totals import Ledger, Totals
from kajitori.monitoring import metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CARDS = Path("/sys/class/net")
_MBIT_BYTES = 125_000


class Card(NamedTuple):
    """Counters of a network card since the node started; `in` is to the node."""

    name: str
    bytes_in: int
    bytes_out: int
    dropped_in: int
    """Packets that it had no buffer for, or that arrived damaged."""
    dropped_out: int
    bytes_per_second: int
    """Its capacity in each direction; 0 if it does not report one."""


def cards(folder: Path = CARDS) -> Iterator[Card]:
    """Yield this node's network cards, physical or of a virtual machine, without devices that software created."""
    with contextlib.suppress(OSError):
        for card in sorted(folder.iterdir()):
            if (card / "device").exists():
                with contextlib.suppress(OSError, ValueError):  # it was removed meanwhile
                    yield _card_counters(card)


def _card_counters(folder: Path) -> Card:
    def count(*names: str) -> int:
        return sum(int((folder / "statistics" / name).read_text()) for name in names)

    speed = 0
    with contextlib.suppress(OSError, ValueError):  # a card without a link has no speed
        speed = max(0, int((folder / "speed").read_text()))
    return Card(
        folder.name,
        count("rx_bytes"),
        count("tx_bytes"),
        count("rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_crc_errors"),
        count("tx_dropped", "tx_errors"),
        speed * _MBIT_BYTES,
    )


def exposition(counting: Counting, registry: CollectorRegistry) -> bytes:
    """Return all metrics of the agent in Prometheus' text format."""
    lines = [*traffic_lines(counting.ledger), *card_lines(cards()), *_health_series(counting.health)]
    return "\n".join(lines).encode() + b"\n" + generate_latest(registry)


def traffic_lines(ledger: Ledger) -> Iterator[str]:
    """Yield the series of all totals."""
    pods, runs = ledger.pods.values(), ledger.runs.values()
    yield from _byte_and_packet_series(
        metrics.TRAFFIC_POD,
        "of Pods that are on this node",
        ((_label_text(namespace=a.pod.namespace, pod=a.pod.name, run=a.pod.run), a.totals) for a in pods),
    )
    yield from _byte_and_packet_series(
        metrics.TRAFFIC_RUN,
        "of runs with recent members on this node",
        ((_label_text(namespace=a.namespace, run=a.run, run_id=a.run_id, user=a.user), a.totals) for a in runs),
    )
    yield from _byte_and_packet_series(
        metrics.TRAFFIC_NAMESPACE, "of namespaces", _labelled_totals("namespace", ledger.namespaces)
    )
    yield from _byte_and_packet_series(
        metrics.TRAFFIC_USER, "of users, by their runs", _labelled_totals("user", ledger.users)
    )
    host = "of the node's own programs and of Pods without a network of their own"
    yield from _byte_and_packet_series(metrics.TRAFFIC_HOST, host, [("", ledger.host)])
    yield from _byte_and_packet_series(
        metrics.TRAFFIC_STRANGERS, "of Pods that are no longer known", [("", ledger.strangers)]
    )


def card_lines(found: Iterable[Card]) -> Iterator[str]:
    """Yield the series of the node's network cards."""
    known = list(found)
    yield f"# HELP {metrics.CARD_BYTES} Bytes through the node's network cards; in is to the node."
    yield f"# TYPE {metrics.CARD_BYTES} counter"
    for card in known:
        yield f'{metrics.CARD_BYTES}{{device="{card.name}",direction="in"}} {card.bytes_in}'
        yield f'{metrics.CARD_BYTES}{{device="{card.name}",direction="out"}} {card.bytes_out}'
    yield f"# HELP {metrics.CARD_DROPPED} Packets that a card had no buffer for, or that arrived damaged."
    yield f"# TYPE {metrics.CARD_DROPPED} counter"
    for card in known:
        yield f'{metrics.CARD_DROPPED}{{device="{card.name}",direction="in"}} {card.dropped_in}'
        yield f'{metrics.CARD_DROPPED}{{device="{card.name}",direction="out"}} {card.dropped_out}'
    yield f"# HELP {metrics.CARD_CAPACITY} Capacity of a card in each direction, if the card reports it."
    yield f"# TYPE {metrics.CARD_CAPACITY} gauge"
    for card in known:
        if card.bytes_per_second:
            yield f'{metrics.CARD_CAPACITY}{{device="{card.name}"}} {card.bytes_per_second}'


def _health_series(health: Health) -> Iterator[str]:
    repairs = "Times that another program's changes to the rules were undone."
    lost = "Counters that another program deleted or reset."
    figures = (
        (metrics.AGENT_REPAIRS, "counter", repairs, health.repairs),
        (metrics.AGENT_COUNTERS_LOST, "counter", lost, health.counters_lost),
        (metrics.AGENT_FAILURES, "counter", "Rounds that failed.", health.failures),
        (metrics.AGENT_UNCOUNTED_PODS, "gauge", "Pods here that no engine can count.", health.uncounted_pods),
        (metrics.AGENT_READ_SECONDS, "gauge", "Duration of the last read.", health.read_seconds),
        (metrics.AGENT_READ_AT, "gauge", "Time of the last read, in seconds since 1970.", health.read_at),
        (metrics.AGENT_REPORTED_AT, "gauge", "Time of the last report, in seconds since 1970.", health.reported_at),
    )
    for name, kind, text, value in figures:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {kind}"
        yield f"{name} {value}"


def _byte_and_packet_series(prefix: str, of: str, rows: Iterable[tuple[str, Totals]]) -> Iterator[str]:
    """Yield the series of a counter of bytes and of one of packets."""
    sizes, packets = [], []
    size_name, packet_name = f"{prefix}_bytes_total", f"{prefix}_packets_total"
    for labels, totals in rows:
        for kind, count in totals.items():
            address_class, _, direction = kind.rpartition(".")
            where = f'{{{labels}class="{address_class}",direction="{direction}"}}'
            sizes.append(f"{size_name}{where} {count.bytes}")
            packets.append(f"{packet_name}{where} {count.packets}")
    for name, what, series in ((size_name, "Bytes of IP packets", sizes), (packet_name, "IP packets", packets)):
        yield f"# HELP {name} {what} {of}, by class of the other address; in is to the Pod."
        yield f"# TYPE {name} counter"
        yield from series


def _labelled_totals(label: str, totals: Mapping[str, Totals]) -> Iterator[tuple[str, Totals]]:
    return ((_label_text(**{label: name}), sums) for name, sums in totals.items())


def _label_text(**labels: str) -> str:
    return "".join(f'{name}="{_escaped(value)}",' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
