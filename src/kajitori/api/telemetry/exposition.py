"""The newest bands of runs for Prometheus, with a bounded number of series.

The text names runs, so the route needs the right to list the runs of all namespaces; /metrics names none. Only
quantities for operators are shown (`Audience.OPERATORS`), three series each; of more than MAX_RUNS runs those with
the most ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kajitori.core.telemetry.bands import Bands
from kajitori.core.telemetry.quantities import QUANTITIES, Audience, Quantity, Unit

MAX_RUNS = 1000
"""Most runs. This bounds an answer at 34,000 series, about 4 MB."""
SHOWN: tuple[Quantity, ...] = tuple(each for each in QUANTITIES.values() if each.audience is Audience.OPERATORS)
_STATISTICS = ("least", "median", "most")
_NAMES = {
    Unit.BYTES: "bytes",
    Unit.BYTES_PER_SECOND: "bytes_per_second",
    Unit.SECONDS: "seconds",
    Unit.PERCENT: "percent",
    Unit.WATTS: "watts",
    Unit.CELSIUS: "celsius",
    Unit.CORES: "cores",
}


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run and its newest bands."""

    namespace: str
    name: str
    run_id: str
    ranks: int
    bands: Bands


def metric_name(quantity: Quantity) -> str:
    """Return the name of a quantity's metric, with its unit as Prometheus wants it."""
    unit = _NAMES.get(quantity.unit, "")
    return f"kajitori_run_{quantity.name.replace('.', '_')}" + (f"_{unit}" if unit else "")


def exposition(runs: Sequence[ShownRun]) -> bytes:
    """Return the text of these runs, the largest first."""
    largest = sorted(runs, key=lambda run: (-run.ranks, run.namespace, run.name))[:MAX_RUNS]
    return "".join(_lines(largest)).encode()


def _lines(runs: Sequence[ShownRun]) -> Iterator[str]:
    yield "# HELP kajitori_run_ranks Ranks that reported in the newest minute.\n# TYPE kajitori_run_ranks gauge\n"
    for run in runs:
        yield f"kajitori_run_ranks{{{_labels(run)}}} {run.ranks}\n"
    for quantity in SHOWN:
        name = metric_name(quantity)
        yield f"# HELP {name} {quantity.text}, over all ranks.\n# TYPE {name} gauge\n"
        for run in runs:
            band = run.bands.get(quantity.name)
            if band is not None:
                for statistic in _STATISTICS:
                    value = getattr(band, statistic)
                    yield f'{name}{{{_labels(run)},statistic="{statistic}"}} {value:.9g}\n'


def _labels(run: ShownRun) -> str:
    pairs: Iterable[tuple[str, str]] = (("namespace", run.namespace), ("run", run.name), ("run_id", run.run_id))
    return ",".join(f'{name}="{value}"' for name, value in pairs)  # names of Kubernetes need no escape
