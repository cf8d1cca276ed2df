"""The manifests below `deploy/`: what the default settings render, as a kustomize base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.install.parts.monitoring import alerts, monitors
from kajitori.install.parts.objects import Object, as_yaml
from kajitori.install.render import certificates, render
from kajitori.install.settings import (
    HistorySettings,
    InstallSettings,
    Issuer,
    MonitoringSettings,
    SignInSettings,
    TlsSettings,
)
from kajitori.monitoring.alerts import GROUPS, model
from kajitori.monitoring.alerts.model import RULES_FILE

_MADE = "# Made by docs/generate.py (make reference) from src/kajitori/install; edits here are lost.\n"
_ABOUT = {
    "namespace": "The namespace of the parts, with Kubernetes' strictest Pod security standard, that of channels\n"
    "of messages, and that of agents.",
    "definition": "The resource `runs.kajitori.dev`, and the PriorityClass of runs' Pods. Apply it with each new\n"
    "version before the parts, together with owner-policy.yaml and member-policy.yaml (kubectl apply --server-side).",
    "owner-policy": "A user cannot submit a run in the name of another user: the API server requires that the\n"
    "annotation kajitori.dev/owner names the user that it authenticated, and keeps it. Needs Kubernetes 1.30.",
    "member-policy": "Only an account that may update the status of runs can create a Pod with the label\n"
    "kajitori.dev/run-uid or change Kajitori's labels on it, because Services, NetworkPolicies and budgets select\n"
    "Pods by them. The API server consults it for Pods with that label only. Needs Kubernetes 1.30.",
    "rbac": "Roles of people and parts; src/kajitori/install/parts/roles.py says what each rule is for. Bind\n"
    "kajitori-team-viewer, -user and -lead to groups in their namespaces: `kaji team render` writes the bindings.",
    "flowcontrol": "How the API server shares its capacity between Kajitori and all other clients.",
    "policy": "Policy and address registry of Web API and controller (docs/reference/policy.md and networks.md).\n"
    "Edit it before you apply it. The parts read it again when it changes; a faulty version is not used.",
    "alerts": "Alert rules as a file; docs/operate/alerts.md explains each. alerts/ has them as a PrometheusRule, too.",
    "dashboards": "Dashboards for Grafana, whose sidecar finds this ConfigMap by its label.",
    "networkpolicies": "Only the ports below of Kajitori's own Pods can be reached.",
    "server": "The Web API answers `kaji`, agents and members of runs. It needs the Secret kajitori-tls.",
    "controller": "The controllers plan, start and restart runs; one leads. They need the Secret kajitori-tls.",
    "relay": "The relay tells agents about the Pods of their nodes. It needs the Secret kajitori-tls.",
    "agent": "Agents count the traffic of each node's Pods. They need their namespace's Secret kajitori-tls.",
}
_BASE = """\
# `kaji install` applies the same and makes the certificates, too. Without it:
#
#   kubectl apply --server-side -k deploy                 # the parts wait for the Secret kajitori-tls
#   kubectl apply -f deploy/cert-manager/certificates.yaml  # makes it, in a cluster with cert-manager
"""


def base() -> dict[str, str]:
    """Return every file below `deploy/` by its path."""
    settings = InstallSettings(tls=TlsSettings(certificates="given"))
    files = render(settings)
    found = {f"{name}.yaml": _file_text(_ABOUT[name], as_yaml(objects)) for name, objects in files.items()}
    found["kustomization.yaml"] = _MADE + _BASE + as_yaml([_kustomization([f"{name}.yaml" for name in files])])
    found["cert-manager/certificates.yaml"] = _file_text(
        "Certificates of parts and agents by an authority of their own, which cert-manager keeps.", _cert_manager()
    )
    monitoring = MonitoringSettings(alerts="prometheusRule")
    found["alerts/prometheus-rule.yaml"] = _file_text(
        "The same rules as alerts.yaml, for Prometheus Operator.",
        as_yaml(alerts(settings.model_copy(update={"monitoring": monitoring}))),
    )
    found["alerts/monitors.yaml"] = _file_text(
        "What Prometheus Operator reads: Web APIs, controllers and agents.",
        as_yaml(monitors(settings.model_copy(update={"monitoring": monitoring}))),
    )
    found[f"alerts/{RULES_FILE}"] = _MADE + model.as_yaml(model.rules(GROUPS))
    found["alerts/tests.yaml"] = (
        f"{_MADE}# Tests of {RULES_FILE}: promtool test rules deploy/alerts/tests.yaml\n"
        + model.as_yaml(model.promtool_tests(GROUPS))
    )
    return found | _all_components()


def _all_components() -> dict[str, str]:
    """Return a kustomize component for each part that the base leaves out because it needs values of the site."""
    sign_in = SignInSettings(issuer="https://login.example.org").model_copy(update={"url": "https://kaji.example.org"})
    history = HistorySettings(url="postgresql://kajitori@postgres.example.org/kajitori").model_copy(
        update={"secret": "kajitori-history"}
    )
    found: dict[str, str] = {}
    updates: dict[str, dict[str, Any]] = {
        "sign-in": {"sign_in": sign_in},
        "history": {"history": history},
    }
    for name, update in updates.items():
        found |= _component_files(
            name, InstallSettings(tls=TlsSettings(certificates="given")).model_copy(update=update)
        )
    return found


_COMPONENTS = {
    "sign-in": "Sign-in at an OpenID provider. Edit issuer and URL in server.yaml, and make the key of sessions:\n"
    "head -c 32 /dev/urandom | kubectl -n kajitori create secret generic kajitori-sign-in --from-file=key=/dev/stdin",
    "history": "History in PostgreSQL. Edit the URL in both files, and make the Secret with its password:\n"
    "kubectl -n kajitori create secret generic kajitori-history --from-file=password=FILE",
}


def _component_files(name: str, settings: InstallSettings) -> dict[str, str]:
    """Return a component's files: patches that make the Pods of the base like those of these settings."""
    base, wanted = _with_pods(InstallSettings(tls=TlsSettings(certificates="given"))), _with_pods(settings)
    patches = {part: _json_patch(base[part], document) for part, document in wanted.items()}
    files = {f"{name}/{part}.yaml": _MADE + as_yaml([patch]) for part, patch in patches.items() if patch}
    listed = [
        {"target": {"kind": wanted[part]["kind"], "name": f"kajitori-{part}"}, "path": f"{part}.yaml"}
        for part, patch in patches.items()
        if patch
    ]
    document = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "patches": listed}
    about = (
        _COMPONENTS[name]
        + f"\nUse it in a kustomization of yours: resources: [../deploy], components: [../deploy/{name}]"
    )
    files[f"{name}/kustomization.yaml"] = _file_text(about, as_yaml([document]))
    return files


def _with_pods(settings: InstallSettings) -> dict[str, Object]:
    return {
        part: document
        for part, documents in render(settings).items()
        for document in documents
        if document["kind"] in ("Deployment", "DaemonSet")
    }


def _json_patch(base: Object, wanted: Object) -> list[Object]:
    """Return the JSON patch (RFC 6902) that adds the arguments, volumes and mounts of `wanted` that `base` lacks."""
    found: list[Object] = []
    pods = [document["spec"]["template"]["spec"] for document in (base, wanted)]
    containers = [pod["containers"][0] for pod in pods]
    for path, (old, new) in (
        ("containers/0/args", [container["args"] for container in containers]),
        ("containers/0/volumeMounts", [container["volumeMounts"] for container in containers]),
        ("volumes", [pod["volumes"] for pod in pods]),
    ):
        found += [
            {"op": "add", "path": f"/spec/template/spec/{path}/-", "value": entry} for entry in new if entry not in old
        ]
    return found


def _file_text(about: str, text: str) -> str:
    return _MADE + "".join(f"# {line}\n" for line in about.split("\n")) + text


def _kustomization(resources: list[str]) -> Mapping[str, object]:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}


def _cert_manager() -> str:
    """Return a self-signed authority, the issuer that uses it, and the Certificates of parts and agents."""
    settings = InstallSettings(tls=TlsSettings(certificates="certManager", issuer=Issuer(name="kajitori")))
    version, authority = "cert-manager.io/v1", "kajitori-authority"
    issuer = {"group": "cert-manager.io", "kind": "ClusterIssuer"}
    spec = {
        "isCA": True,
        "commonName": authority,
        "secretName": authority,
        "duration": "87600h",
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {**issuer, "name": f"{authority}-self-signed"},
    }
    objects = [
        {
            "apiVersion": version,
            "kind": "ClusterIssuer",
            "metadata": {"name": f"{authority}-self-signed"},
            "spec": {"selfSigned": {}},
        },
        {
            "apiVersion": version,
            "kind": "Certificate",
            "metadata": {"name": authority, "namespace": "cert-manager"},
            "spec": spec,
        },
        {
            "apiVersion": version,
            "kind": "ClusterIssuer",
            "metadata": {"name": "kajitori"},
            "spec": {"ca": {"secretName": authority}},
        },
        *certificates(settings),
    ]
    return as_yaml(objects)
