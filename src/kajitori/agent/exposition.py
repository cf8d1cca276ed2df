"""What an agent tells Prometheus: tens of thousands of series as text, without an object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest

from kajitori.agent.cards import Card, cards
from kajitori.agent.counting import Counting, Health
from kajitori.core.traffic.totals import Ledger, Totals
from kajitori.monitoring import metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(counting: Counting, registry: CollectorRegistry) -> bytes:
    """Everything that an agent knows, in Prometheus' text format."""
    lines = [*traffic_lines(counting.ledger), *card_lines(cards()), *_health(counting.health)]
    return "\n".join(lines).encode() + b"\n" + generate_latest(registry)


def traffic_lines(ledger: Ledger) -> Iterator[str]:
    """The series of all totals."""
    pods, runs = ledger.pods.values(), ledger.runs.values()
    yield from _family(
        metrics.TRAFFIC_POD,
        "of Pods that are on this node",
        ((_labels(namespace=each.pod.namespace, pod=each.pod.name, run=each.pod.run), each.totals) for each in pods),
    )
    yield from _family(
        metrics.TRAFFIC_RUN,
        "of runs that have, or lately had, members on this node",
        (
            (_labels(namespace=each.namespace, run=each.run, run_id=each.run_id, user=each.user), each.totals)
            for each in runs
        ),
    )
    yield from _family(metrics.TRAFFIC_NAMESPACE, "of namespaces", _by("namespace", ledger.namespaces))
    yield from _family(metrics.TRAFFIC_USER, "of users, by their runs", _by("user", ledger.users))
    host = "of the node's own programs and of Pods without a network of their own"
    yield from _family(metrics.TRAFFIC_HOST, host, [("", ledger.host)])
    yield from _family(metrics.TRAFFIC_STRANGERS, "of Pods that nobody remembers", [("", ledger.strangers)])


def card_lines(found: Iterable[Card]) -> Iterator[str]:
    """The series of the node's own network cards."""
    known = list(found)
    yield f"# HELP {metrics.CARD_BYTES} Bytes through the node's network cards; in is to the node."
    yield f"# TYPE {metrics.CARD_BYTES} counter"
    for card in known:
        yield f'{metrics.CARD_BYTES}{{device="{card.name}",direction="in"}} {card.bytes_in}'
        yield f'{metrics.CARD_BYTES}{{device="{card.name}",direction="out"}} {card.bytes_out}'
    yield f"# HELP {metrics.CARD_DROPPED} Packets that cards had no room for, or that came damaged."
    yield f"# TYPE {metrics.CARD_DROPPED} counter"
    for card in known:
        yield f'{metrics.CARD_DROPPED}{{device="{card.name}",direction="in"}} {card.dropped_in}'
        yield f'{metrics.CARD_DROPPED}{{device="{card.name}",direction="out"}} {card.dropped_out}'
    yield f"# HELP {metrics.CARD_CAPACITY} What a card carries in each direction at most, where it says so."
    yield f"# TYPE {metrics.CARD_CAPACITY} gauge"
    for card in known:
        if card.bytes_per_second:
            yield f'{metrics.CARD_CAPACITY}{{device="{card.name}"}} {card.bytes_per_second}'


def _health(health: Health) -> Iterator[str]:
    repairs = "Times that somebody else's changes to the rules were undone."
    lost = "Counters that somebody else deleted or set back."
    figures = (
        (metrics.AGENT_REPAIRS, "counter", repairs, health.repairs),
        (metrics.AGENT_COUNTERS_LOST, "counter", lost, health.counters_lost),
        (metrics.AGENT_FAILURES, "counter", "Rounds that could not be finished.", health.failures),
        (metrics.AGENT_UNCOUNTED_PODS, "gauge", "Pods here that no engine can count.", health.uncounted_pods),
        (metrics.AGENT_READ_SECONDS, "gauge", "Duration of the last read-out.", health.read_seconds),
        (metrics.AGENT_READ_AT, "gauge", "When counters were read last, in seconds since 1970.", health.read_at),
        (metrics.AGENT_REPORTED_AT, "gauge", "When totals were told last, in seconds since 1970.", health.reported_at),
    )
    for name, kind, text, value in figures:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {kind}"
        yield f"{name} {value}"


def _family(prefix: str, whose: str, rows: Iterable[tuple[str, Totals]]) -> Iterator[str]:
    """A counter of bytes and one of packets."""
    sizes, packets = [], []
    size_name, packet_name = f"{prefix}_bytes_total", f"{prefix}_packets_total"
    for labels, totals in rows:
        for kind, count in totals.items():
            address_class, _, direction = kind.rpartition(".")
            where = f'{{{labels}class="{address_class}",direction="{direction}"}}'
            sizes.append(f"{size_name}{where} {count.bytes}")
            packets.append(f"{packet_name}{where} {count.packets}")
    for name, what, series in ((size_name, "Bytes of IP packets", sizes), (packet_name, "IP packets", packets)):
        yield f"# HELP {name} {what} {whose}, by class of the other address; in is to the Pod."
        yield f"# TYPE {name} counter"
        yield from series


def _by(label: str, totals: Mapping[str, Totals]) -> Iterator[tuple[str, Totals]]:
    return ((_labels(**{label: name}), each) for name, each in totals.items())


def _labels(**labels: str) -> str:
    return "".join(f'{name}="{_escaped(value)}",' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
