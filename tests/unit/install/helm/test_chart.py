"""The Helm chart renders the same objects as the settings: by Helm if it is installed, else by a small reader."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.install.helm.chart_reader import rendered_by_reader

from kajitori.configuration import x509
from kajitori.install.parts.objects import Identity, Object, identity
from kajitori.install.render import in_order, render
from kajitori.install.settings import InstallSettings, parse_settings

CHART = Path(__file__).parents[4] / "deploy" / "helm" / "kajitori"
DIGEST = f"sha256:{'0' * 64}"
AUTHORITY = x509.certificate_pem(x509.authority(x509.new_key(), datetime.now(UTC))).decode()
CASES = {
    "default": "tls: {certificates: given}",
    "everything": f"""
namespace: ml
images:
  prefix: registry.example.org:5000/ml
  partsDigest: '{DIGEST}'
  pullSecrets: [regcred, two]
  pullPolicy: Always
tls: {{certificates: certManager, issuer: {{name: corp}}, names: [kaji.example.org]}}
server:
  replicas: 3
  cpu: 2
  service: LoadBalancer
  arguments: [--limit=recheck-seconds=9]
  nodeSelector: {{pool: infra}}
  tolerations: [{{operator: Exists}}]
  url: https://kaji.example.org
agents: {{metricsSecret: prometheus}}
store: {{url: 's3://bucket', secret: s3}}
history: {{url: 'postgresql://kaji@db/kaji', secret: database}}
signIn:
  issuer: https://login.example.org
  clientId: kajitori
  url: https://kaji.example.org
  programsUrl: https://*.runs.example.org
  clientSecret: ours
  ca: {json.dumps(AUTHORITY)}
gateway: {{enabled: true, groups: ['oidc:a', 'oidc:b'], users: ['oidc:ada']}}
monitoring:
  alerts: prometheusRule
  labels: {{release: prometheus}}
  runbookUrl: https://docs.example.org/operate/alerts.html
""",
    "gateway": """
tls: {certificates: given}
signIn: {issuer: 'https://login.example.org'}
gateway: {enabled: true, groups: ['oidc:operators'], prefix: 'oidc:'}
""",
    "little": "{tls: {certificates: given}, agents: {enabled: false}, flowControl: false, admissionPolicies: false, "
    "monitoring: {alerts: none, dashboards: false}}",
}


def values(case: str) -> tuple[str, dict[str, Any]]:
    """Return the namespace of the release, and the chart's values."""
    found: dict[str, Any] = yaml.safe_load(CASES[case])
    return found.pop("namespace", "kajitori"), found


@cache
def by_helm(case: str) -> list[Object]:
    namespace, given = values(case)
    command = ["helm", "template", "kajitori", str(CHART), "--namespace", namespace, "--values", "-"]
    done = subprocess.run(command, input=yaml.safe_dump(given), capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def rendered_by_chart(case: str) -> list[Object]:
    return by_helm(case) if shutil.which("helm") else rendered_by_reader(CHART, *values(case))


def plain(value: Any) -> Any:
    """Return an object without empty parts and with all values as texts: templates write numbers as texts."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if part not in ({}, [], None)}
    return [plain(part) for part in value] if isinstance(value, list) else str(value)


@pytest.mark.parametrize("case", CASES)
def test_the_chart_renders_the_same_objects_as_the_settings(case: str) -> None:
    settings = parse_settings(CASES[case])
    wanted = {
        identity(document): document
        for document in in_order(render(settings))
        if not _is_of_helm(identity(document), settings)
    }
    found = {identity(document): document for document in rendered_by_chart(case)}
    key = found.pop(Identity("", "Secret", settings.namespace, "kajitori-sign-in"), None)
    assert (key is not None) == bool(settings.sign_in.issuer)
    assert key is None or key["data"]["key"]
    assert found.keys() == wanted.keys()
    for one, document in found.items():
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            for source in container.get("envFrom", ()):
                assert source["secretRef"].pop("optional")
            if container.get("envFrom", [{}])[0].get("secretRef") == {"name": "kajitori-store"}:
                del container["envFrom"]
        assert plain(document) == plain(wanted[one]), one


def _is_of_helm(one: Identity, settings: InstallSettings) -> bool:
    """Return whether Helm makes the object: the namespace of the release, and definitions, which are not templates."""
    return one.kind == "CustomResourceDefinition" or (one.kind == "Namespace" and one.name == settings.namespace)


def test_every_placeholder_in_the_chart_became_an_expression() -> None:
    """Every expression names an existing value."""
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, text in _templates():
        assert "kajimark" not in text and "90000" not in text, path
        for name in re.findall(r"\.Values\.([A-Za-z.]+)", text):
            found = known
            for part in name.split("."):
                assert part in found, (path, name)
                found = found[part]


def _templates() -> Iterator[tuple[str, str]]:
    for path in sorted((CHART / "templates").iterdir()):
        yield path.name, path.read_text()
