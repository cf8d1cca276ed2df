"""Alert rules: promtool accepts them, each fires and is silent as its examples say, and reads metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kajitori.api.telemetry.exposition import metric_name
from kajitori.cli.app import SECTIONS
from kajitori.core.telemetry.quantities import QUANTITIES
from kajitori.install.settings import AGENT_PORT, InstallSettings
from kajitori.monitoring import controller, metrics
from kajitori.monitoring.alerts import GROUPS
from kajitori.monitoring.alerts.model import RULES_FILE, as_yaml, promtool_tests, rules, runbook

ALERTS = [alert for group in GROUPS for alert in group.alerts]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


@needs_promtool
def test_promtool_accepts_the_rules_and_their_tests_pass(tmp_path: Path) -> None:
    """Every alert fires for its example, and is silent for the one that is close to the limit."""
    (tmp_path / RULES_FILE).write_text(as_yaml(rules(GROUPS)))
    (tmp_path / "tests.yaml").write_text(as_yaml(promtool_tests(GROUPS)))
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", RULES_FILE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert (checked.returncode, f"{len(ALERTS)} rules found" in checked.stdout) == (0, True), checked.stderr
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_scrape_configuration_of_agents(tmp_path: Path) -> None:
    """It names the port, and the name of the certificate that all agents share."""
    page = (Path(__file__).parents[3] / "docs" / "operate" / "alerts.md").read_text()
    (text,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    for file in ("kajitori-ca.crt", "kajitori-token"):
        (tmp_path / file).touch()
    here = text.replace(
        "kubernetes_sd_configs: [{role: node}]", "static_configs: [{targets: [x]}]"
    )  # Debian's has none
    assert here != text
    (tmp_path / "prometheus.yml").write_text(here.replace("/etc/prometheus", str(tmp_path)))
    command = ["promtool", "check", "config", "--lint-fatal", "prometheus.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    (name_of_agents,) = InstallSettings().agents_certificate_names
    assert f"server_name: {name_of_agents}" in text
    assert f":{AGENT_PORT}" in text


def test_every_alert_has_a_name_of_its_own_and_a_runbook() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(names) == len(set(names))
    text = runbook(GROUPS)
    for alert in ALERTS:
        assert f"### {alert.name}\n" in text
        assert alert.do and alert.means and not alert.summary.endswith(".")


def test_alerts_read_only_metrics_of_ours_that_exist() -> None:
    """tests/cluster asks the same of the control plane's metrics."""
    ours = {value for value in vars(metrics).values() if isinstance(value, str)}
    of_controller = controller.ControllerMetrics(CollectorRegistry())
    families = [*of_controller.registry.collect(), *(family for family in [metrics.runs_by_phase()])]
    ours |= {f"{family.name}{end}" for family in families for end in ("", "_total", "_bucket", "_count")}
    ours |= {controller.LEADING, controller.MIRROR_AGE_SECONDS}
    ours |= {f"{metrics.REQUEST_SECONDS}_count", f"{metrics.REQUEST_SECONDS}_bucket"}
    for alert in ALERTS:
        own = {name for name in alert.metrics() if name.startswith("kajitori_")}
        assert own <= ours, alert.name


def test_idle_gpus_are_seen_by_the_metric_that_bands_have() -> None:
    assert metric_name(QUANTITIES["gpu.used"]) == metrics.RUN_GPU_USED


def test_runbooks_name_verbs_that_exist() -> None:
    verbs = {verb for section in SECTIONS.values() for verb in section}
    named = set(re.findall(r"`kaji ([a-z-]+)", runbook(GROUPS)))
    assert named and named <= verbs


def test_alerts_lead_to_the_page_where_operators_serve_it() -> None:
    first = rules(GROUPS, "https://docs.example.org/alerts.html")["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"] == "https://docs.example.org/alerts.html#kubeapirefusesforload"
