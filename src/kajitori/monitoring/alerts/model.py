"""The type of alerts, and the files generated from them: rules, tests in promtool's format, and the runbook page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

RULES_FILE = "kajitori-rules.yaml"
GROUP_INTERVAL = "30s"
_TEST_INTERVAL = "1m"


class Severity(StrEnum):
    """Urgency of an alert."""

    CRITICAL = "critical"
    """Now: users are affected, or soon will be."""
    WARNING = "warning"
    """Within the working day."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """Series for a test of an alert, in promtool's notation, and the time at which Prometheus is asked."""

    series: Mapping[str, str]
    at: str


def durations(metric: str, labels: str, bounds: Sequence[str], *, fast: int, total: int, minutes: int = 30) -> Example:
    """Return an example of a histogram with these bounds. Of `total` observations a minute, `fast` are below all
    bounds, and the others between the last two."""
    values = dict.fromkeys(bounds, f"0+{fast}x{minutes}") | dict.fromkeys((bounds[-1], "+Inf"), f"0+{total}x{minutes}")
    series = {f'{metric}_bucket{{{labels},le="{bound}"}}': value for bound, value in values.items()}
    return Example(series=series, at=f"{minutes - 10}m")


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert with its runbook and its tests."""

    name: str
    expr: str
    hold: str
    """How long the expression must hold before the alert fires."""
    severity: Severity
    summary: str
    """One sentence without figures. It is the title of a message, and begins the runbook."""
    description: str
    """Prometheus' template with the figures."""
    means: str
    """The fault, and its effect on users."""
    do: Sequence[str]
    """Steps for the operator on duty, the fastest check first."""
    fires: Example
    quiet: Example
    """A series that is close to the limit, and must not fire."""

    @property
    def anchor(self) -> str:
        """Anchor of its section on the runbook page."""
        return self.name.lower()

    def metrics(self) -> set[str]:
        """Return the names of all metrics that the expression reads."""
        return metrics_in(self.expr)


_METRIC = re.compile(r"(?:kajitori|apiserver|etcd|rest_client)_[a-z0-9_]+")


def metrics_in(expr: str) -> set[str]:
    """Return the names of all metrics in an expression. They are found by their prefixes."""
    return set(_METRIC.findall(expr))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Alerts about one subject."""

    name: str
    title: str
    alerts: Sequence[Alert]


def rules(groups: Iterable[Group], runbook_url: str = "") -> dict[str, Any]:
    """Return the rules as Prometheus reads them; the same is the spec of a PrometheusRule.

    `runbook_url` is where operators serve the page about alerts; without it, the annotation names the page in the
    documentation.
    """
    base = runbook_url or "docs/operate/alerts.md"
    return {"groups": [_rule_group(group, base) for group in groups]}


def _rule_group(group: Group, base: str) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": GROUP_INTERVAL,
        "rules": [_rule_document(alert, base) for alert in group.alerts],
    }


def _rule_document(alert: Alert, base: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": " ".join(alert.expr.split()),
        "for": alert.hold,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": " ".join(alert.description.split()),
            "runbook_url": f"{base}#{alert.anchor}",
        },
    }


def promtool_tests(groups: Iterable[Group]) -> dict[str, Any]:
    """Return the tests of all alerts in promtool's format, for a rules file beside it: each fires for one example and
    is silent for the other."""
    tests = [
        _promtool_test(alert, example, fires)
        for group in groups
        for alert in group.alerts
        for example, fires in ((alert.fires, True), (alert.quiet, False))
    ]
    return {"rule_files": [RULES_FILE], "evaluation_interval": _TEST_INTERVAL, "tests": tests}


def _promtool_test(alert: Alert, example: Example, fires: bool) -> dict[str, Any]:
    return {
        "name": f"{alert.name} {'fires' if fires else 'is silent'}",
        "interval": _TEST_INTERVAL,
        "input_series": [{"series": series, "values": values} for series, values in example.series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) > 0 or vector(0)',
                "eval_time": example.at,
                "exp_samples": [{"labels": "{}", "value": 1 if fires else 0}],
            }
        ],
    }


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a generated document as YAML."""
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def runbook(groups: Iterable[Group]) -> str:
    """Return the runbook sections of all alerts as Markdown."""
    lines: list[str] = []
    for group in groups:
        lines += [f"## {group.title}", ""]
        for alert in group.alerts:
            lines += [f"### {alert.name}", "", f"*{alert.severity.value.capitalize()}, after {alert.hold}.*", ""]
            lines += [alert.summary + ". " + " ".join(alert.means.split()), ""]
            lines += [f"{number}. {' '.join(step.split())}" for number, step in enumerate(alert.do, start=1)]
            lines += ["", "```promql", " ".join(alert.expr.split()), "```", ""]
    return "\n".join(lines)
