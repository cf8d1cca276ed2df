"""Objects for monitoring: targets and alert rules for Prometheus, and dashboards for Grafana."""

from __future__ import annotations

from importlib import resources

from kajitori.install.parts.objects import Object, made
from kajitori.install.settings import METRICS_TOKEN_KEY, TLS_SECRET, InstallSettings
from kajitori.monitoring.alerts import GROUPS
from kajitori.monitoring.alerts.model import RULES_FILE, as_yaml, rules

_MONITORING = "monitoring.coreos.com/v1"
RULE_KIND = (_MONITORING, "PrometheusRule")
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


def monitors(settings: InstallSettings) -> list[Object]:
    """Return the PodMonitors by which Prometheus Operator finds Web APIs, controllers and agents; none in a cluster
    without the operator.

    Each PodMonitor is in the namespace of its Pods, where the authority of their certificate is. A certificate contains
    no addresses of Pods or nodes, so each PodMonitor says which name to expect.
    """
    monitoring = settings.monitoring
    if monitoring.alerts != "prometheusRule" or not monitoring.monitors:
        return []
    found = [
        _pod_monitor(settings, part, settings.namespace, port, f"{part}.{settings.namespace}.svc")
        for part, port in (("server", "web"), ("controller", "metrics"))
    ]
    if settings.agents.enabled:
        (name,) = settings.agents_certificate_names
        found.append(_pod_monitor(settings, "agent", settings.agents_namespace, "metrics", name, own_labels=True))
    return found


def _pod_monitor(
    settings: InstallSettings, part: str, namespace: str, port: str, name: str, *, own_labels: bool = False
) -> Object:
    """Return the PodMonitor of a part. `own_labels`: its metrics name namespaces and Pods themselves."""
    endpoint: Object = {"port": port, "path": "/metrics", "honorLabels": own_labels}
    if settings.encrypts:
        authority = {"secret": {"name": TLS_SECRET, "key": "ca.crt"}}
        endpoint |= {"scheme": "https", "tlsConfig": {"ca": authority, "serverName": name}}
    token = settings.agents.metrics_secret
    if part == "agent" and token:
        endpoint["authorization"] = {"credentials": {"name": token, "key": METRICS_TOKEN_KEY}}
    spec = {
        "selector": {"matchLabels": {"app.kubernetes.io/name": f"kajitori-{part}"}},
        "podMetricsEndpoints": [endpoint],
    }
    found = made(_MONITORING, "PodMonitor", f"kajitori-{part}", namespace, spec=spec)
    found["metadata"]["labels"] |= settings.monitoring.labels
    return found


def dashboards(settings: InstallSettings) -> list[Object]:
    """Return the ConfigMap with all dashboards."""
    if not settings.monitoring.dashboards:
        return []
    folder = resources.files("kajitori.monitoring") / "dashboards"
    texts = {f"kajitori-{one.name}": one.read_text() for one in folder.iterdir() if one.name.endswith(".json")}
    found = made("v1", "ConfigMap", DASHBOARDS, settings.namespace, data=dict(sorted(texts.items())))
    found["metadata"]["labels"] |= DASHBOARD_LABEL
    return [found]
