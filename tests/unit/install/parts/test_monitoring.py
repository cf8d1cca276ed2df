"""Alert rules and dashboards of an installation: in the form that the cluster reads."""

from __future__ import annotations

import json

import pytest
import yaml

from kajitori.entrypoints.installation.planning import with_alerts
from kajitori.errors import NotFound
from kajitori.install.parts.monitoring import alerts, dashboards, monitors
from kajitori.install.render import in_order, render
from kajitori.install.settings import InstallSettings, MonitoringSettings, parse_settings
from kajitori.monitoring.alerts import GROUPS


def test_rules_are_an_object_of_prometheus_operator_or_a_file() -> None:
    """Both hold the same rules; the object has the labels by which a Prometheus selects it."""
    as_object, as_file = (
        alerts(parse_settings(f"monitoring: {{alerts: {form}, labels: {{release: prom}}, runbookUrl: 'https://d/a'}}"))[
            0
        ]
        for form in ("prometheusRule", "configMap")
    )
    assert (as_object["kind"], as_object["metadata"]["labels"]["release"]) == ("PrometheusRule", "prom")
    assert yaml.safe_load(as_file["data"]["kajitori-rules.yaml"]) == as_object["spec"]
    first = as_object["spec"]["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"].startswith("https://d/a#")
    assert [group["name"] for group in as_object["spec"]["groups"]] == [group.name for group in GROUPS]


def test_prometheus_operator_is_told_the_names_in_certificates() -> None:
    """Each monitor is where its authority and its token are, reads a port that the Pods have, and expects a name of the
    certificate that they serve."""
    text = "{monitoring: {alerts: prometheusRule, labels: {release: prom}}, agents: {metricsSecret: token}}"
    settings = parse_settings(text)
    found = {one["metadata"]["name"]: one for one in monitors(settings)}
    pods = {one["metadata"]["name"]: one for one in in_order(render(settings)) if "template" in one.get("spec", {})}
    names = {"kajitori": settings.certificate_names, "kajitori-agents": settings.agents_certificate_names}
    assert found.keys() == {"kajitori-server", "kajitori-controller", "kajitori-agent"}
    for name, monitor in found.items():
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        meta, template = pods[name]["metadata"], pods[name]["spec"]["template"]
        assert monitor["metadata"]["namespace"] == meta["namespace"]
        assert monitor["metadata"]["labels"]["release"] == "prom"
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert (endpoint["scheme"], endpoint["tlsConfig"]["serverName"] in names[meta["namespace"]]) == ("https", True)
        assert ("authorization" in endpoint) == endpoint["honorLabels"] == (name == "kajitori-agent")


def test_without_certificates_or_operator_monitors_say_so() -> None:
    plain = parse_settings(
        "{monitoring: {alerts: prometheusRule}, tls: {certificates: none}, agents: {enabled: false}}"
    )
    assert [one["spec"]["podMetricsEndpoints"] for one in monitors(plain)] == [
        [{"port": port, "path": "/metrics", "honorLabels": False}] for port in ("web", "metrics")
    ]
    for text in ("monitoring: {alerts: configMap}", "monitoring: {alerts: prometheusRule, monitors: false}"):
        assert monitors(parse_settings(text)) == []


def test_dashboards_are_found_by_grafanas_sidecar() -> None:
    (found,) = dashboards(InstallSettings())
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert set(found["data"]) == {f"kajitori-{name}.json" for name in ("control-plane", "platform", "traffic")}
    assert all(json.loads(text)["panels"] for text in found["data"].values())
    assert len(json.dumps(found)) < 500_000, "a ConfigMap takes 1 MiB"
    nothing = InstallSettings(monitoring=MonitoringSettings(alerts="none", dashboards=False))
    assert (alerts(nothing), dashboards(nothing)) == ([], [])


class Cluster:
    """A cluster with or without Prometheus Operator."""

    def __init__(self, has_operator: bool) -> None:
        self._has_operator = has_operator

    async def request(self, method: str, path: str) -> bytes:
        if not self._has_operator:
            raise NotFound(path)
        return b"{}"


@pytest.mark.parametrize(("has_operator", "form"), [(True, "prometheusRule"), (False, "configMap")])
async def test_an_installation_asks_the_cluster_which_form_it_reads(has_operator: bool, form: str) -> None:
    resolved = await with_alerts(Cluster(has_operator), InstallSettings())
    assert resolved.monitoring.alerts == form
    chosen = InstallSettings(monitoring=MonitoringSettings(alerts="none"))
    assert await with_alerts(Cluster(has_operator), chosen) is chosen
