"""The dashboards: every query is valid PromQL, and those about traffic ask for what agents expose.

tests/cluster asks a real Prometheus for the data of the others.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.agent.test_telling import counting, pod, series
from tests.unit.test_docs import generator

from kajitori.agent.exposition import Card, card_lines, exposition
from kajitori.monitoring.metrics import new_registry

FOLDER = Path(__file__).parents[3] / "src" / "kajitori" / "monitoring" / "dashboards"
DASHBOARDS = sorted(path.name for path in FOLDER.glob("*.json"))
TARGET_LABELS = {"instance", "job"}
"""Labels that Prometheus adds to every series."""


def dashboard(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return document


def expressions(name: str) -> Iterator[tuple[str, str]]:
    """Pairs of PromQL and legend, with Grafana's variables filled in."""
    for panel in dashboard(name)["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "5m").replace("$__range", "6h")
            yield re.sub(r"\$\w+", "x", text), target.get("legendFormat", "")


@pytest.fixture
def exposed(tmp_path: Path) -> dict[str, set[str]]:
    """Labels of each metric that the agent exposes."""
    text = exposition(counting(tmp_path, pod()), new_registry())
    text += "\n".join(card_lines([Card("eth0", 1, 2, 3, 4, 5)])).encode() + b"\n"
    return {name: {label for labels in found for label, _ in labels} for name, found in series(text).items()}


def test_every_metric_and_label_of_traffic_is_exposed(exposed: dict[str, set[str]]) -> None:
    """In queries, groupings, legends and variables."""
    name = "traffic.json"
    asked = list(expressions(name))
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            asked.append((f"sum by ({label}) ({metric})", ""))
    assert len(asked) > 10
    for text, legend in asked:
        metrics = set(re.findall(r"\bkajitori_\w+", text))
        assert metrics and metrics <= exposed.keys(), text
        labels = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', text))
        for group in re.findall(r"\b(?:by|on|group_left|without)\s*\(([^)]*)\)", text):
            labels |= {label.strip() for label in group.split(",") if label.strip()}
        labels |= set(re.findall(r"{{\s*(\w+)\s*}}", legend))
        known = TARGET_LABELS.union(*(exposed[metric] for metric in metrics))
        assert labels <= known, f"{text} knows no {labels - known}"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_every_query_is_valid_promql(tmp_path: Path) -> None:
    texts = [text for name in DASHBOARDS for text, _ in expressions(name)]
    rules = [{"record": f"query:{number}", "expr": text} for number, text in enumerate(texts)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, f"{len(rules)} rules found" in done.stdout) == (0, True), done.stderr


def test_the_generated_dashboards_are_up_to_date() -> None:
    for name, text in generator().dashboards.dashboards().items():
        assert (FOLDER / name).read_text() == text, "the dashboards are out of date: make reference"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap_and_variables_are_defined_and_used(name: str) -> None:
    """Each panel has a number, a title and a place of its own."""
    document = dashboard(name)
    variables = {variable["name"] for variable in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", (FOLDER / name).read_text())) - {"__all", "__range", "__rate_interval"}
    assert used == variables
    cells: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert panel["title"] and place["x"] + place["w"] <= 24
        own = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert not own & cells, panel["title"]
        cells |= own
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(numbers) == len(set(numbers))
