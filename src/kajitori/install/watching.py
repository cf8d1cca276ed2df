"""Alert rules for Prometheus and dashboards for Grafana, as parts of an installation."""

from __future__ import annotations

from importlib import resources

from kajitori.install.objects import Object, made
from kajitori.install.settings import InstallSettings
from kajitori.monitoring.alerts import GROUPS
from kajitori.monitoring.alerts.model import RULES_FILE, as_yaml, rules

RULE_KIND = ("monitoring.coreos.com/v1", "PrometheusRule")
"""The kind of Prometheus Operator."""
ALERTS, DASHBOARDS = "kajitori-alerts", "kajitori-dashboards"
DASHBOARD_LABEL = {"grafana_dashboard": "1"}
"""Label by which Grafana's usual sidecar finds ConfigMaps with dashboards."""


def alerts(settings: InstallSettings) -> list[Object]:
    """Return the alert rules, as an object of Prometheus Operator or as a file in a ConfigMap (also for `auto`, which
    `kaji install` resolves by asking the cluster)."""
    monitoring = settings.monitoring
    content = rules(GROUPS, monitoring.runbook_url)
    if monitoring.alerts == "none":
        return []
    if monitoring.alerts == "prometheusRule":
        found = made(*RULE_KIND, ALERTS, settings.namespace, spec=content)
        found["metadata"]["labels"] |= monitoring.labels
        return [found]
    return [made("v1", "ConfigMap", ALERTS, settings.namespace, data={RULES_FILE: as_yaml(content)})]


def dashboards(settings: InstallSettings) -> list[Object]:
    """Return the ConfigMap with all dashboards."""
    if not settings.monitoring.dashboards:
        return []
    folder = resources.files("kajitori.monitoring") / "dashboards"
    texts = {f"kajitori-{one.name}": one.read_text() for one in folder.iterdir() if one.name.endswith(".json")}
    found = made("v1", "ConfigMap", DASHBOARDS, settings.namespace, data=dict(sorted(texts.items())))
    found["metadata"]["labels"] |= DASHBOARD_LABEL
    return [found]
