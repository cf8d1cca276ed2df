"""deploy/server.yaml and deploy/controller.yaml: the parts accept their arguments, find what they need, and are reached
where clients look for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry

from kajitori.api.health import router
from kajitori.cli.verbs.platform.controller import command as controller
from kajitori.cli.verbs.platform.server import command as server
from kajitori.configuration.options.parts import ControllerOptions, ServerOptions
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.core.naming.names import AGENT_ACCOUNT
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.core.policy.file import parse_policy
from kajitori.install.parts.pods import TLS_FOLDER
from kajitori.monitoring.probes import ProbeServer

DEPLOY = Path(__file__).parents[3] / "deploy"
PARTS: dict[str, click.Command] = {"server": server, "controller": controller}
OPTIONS: dict[str, Any] = {"server": ServerOptions, "controller": ControllerOptions}


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()) if document]


def document_of(name: str, kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents(name) if document["kind"] == kind]
    return found


def container(part: str) -> dict[str, Any]:
    (found,) = document_of(part, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def settings_of(part: str, folder: Path) -> dict[str, Any]:
    """Return the settings from its command line, with the ConfigMap's files in `folder`."""
    (mount,) = [mount for mount in container(part)["volumeMounts"] if mount["name"] == "policy"]
    for name, text in document_of("policy", "ConfigMap")["data"].items():
        (folder / name).write_text(text)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (folder / name).write_text("")
    tls, policy = f"{TLS_FOLDER}/", f"{mount['mountPath']}/"
    arguments = [
        argument.replace(tls, f"{folder}/").replace(policy, f"{folder}/") for argument in container(part)["args"]
    ]
    return PARTS[part].make_context(part, arguments).params


@pytest.mark.parametrize("part", PARTS)
def test_a_part_accepts_its_command_line(part: str, tmp_path: Path) -> None:
    """It names files of the ConfigMap, which are valid."""
    assert container(part)["command"] == ["kaji", part]
    found = settings_of(part, tmp_path)
    parse_policy(found["policy"].read_bytes())
    OPTIONS[part](**found)
    assert found["member_image"] and found["member_server"] and found["member_ca"] and found["certificate"]
    if part == "server":
        parse_networks(found["networks"].read_bytes())
        assert found["agent_account"] == AGENT_ACCOUNT
    else:
        assert found["namespace"] == LEASE_NAMESPACE
    (volume,) = [
        v for v in document_of(part, "Deployment")["spec"]["template"]["spec"]["volumes"] if v["name"] == "policy"
    ]
    assert volume["configMap"]["name"] == document_of("policy", "ConfigMap")["metadata"]["name"]


@pytest.mark.parametrize("part", [*PARTS, "relay"])
def test_its_account_has_the_roles_of_rbac_yaml(part: str) -> None:
    """Its Pods run under their own account and with no more rights on the machine than they need."""
    roles = {
        (document["kind"], document["metadata"]["name"], document["metadata"].get("namespace"))
        for document in documents("rbac")
    }
    account = document_of(part, "ServiceAccount")["metadata"]
    bindings = [document for document in documents(part) if document["kind"].endswith("RoleBinding")]
    assert bindings
    for binding in bindings:
        ref = binding["roleRef"]
        namespace = binding["metadata"].get("namespace") if ref["kind"] == "Role" else None
        assert (ref["kind"], ref["name"], namespace) in roles
        assert [(subject["name"], subject["namespace"]) for subject in binding["subjects"]] == [
            (account["name"], account["namespace"])
        ]
    spec = document_of(part, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == account["name"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container(part)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("part", PARTS)
def test_all_selectors_of_a_part_select_its_pods(part: str) -> None:
    """There are several Pods, so that one may be missing."""
    deployment = document_of(part, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"], document_of(part, "PodDisruptionBudget")["spec"]["selector"]]
    selectors += [
        constraint["labelSelector"] for constraint in deployment["template"]["spec"]["topologySpreadConstraints"]
    ]
    assert [selector["matchLabels"] for selector in selectors] == [labels] * 3
    assert deployment["replicas"] > document_of(part, "PodDisruptionBudget")["spec"]["maxUnavailable"]
    if part == "server":
        assert document_of(part, "Service")["spec"]["selector"] == labels


def test_probes_of_the_controller_use_its_port_and_paths(tmp_path: Path) -> None:
    """Its log is JSON."""
    found = settings_of("controller", tmp_path)
    (port,) = container("controller")["ports"]
    assert (found["host"], found["port"], found["log_format"]) == ("0.0.0.0", port["containerPort"], "json")
    probes = ProbeServer(CollectorRegistry(), host="", port=0, ready=str)
    for name in ("readinessProbe", "livenessProbe"):
        asked = container("controller")[name]["httpGet"]
        assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS")
        assert asked["path"] in probes.paths


def test_the_web_api_is_where_agents_members_and_probes_look_for_it(tmp_path: Path) -> None:
    """They use the Service's name and port, and paths that exist."""
    service = document_of("server", "Service")
    (port,) = service["spec"]["ports"]
    assert settings_of("server", tmp_path)["port"] == port["port"] == container("server")["ports"][0]["containerPort"]
    assert port["targetPort"] == container("server")["ports"][0]["name"]
    (agent,) = document_of("agent", "DaemonSet")["spec"]["template"]["spec"]["containers"]
    report_url = next(argument for argument in agent["args"] if argument.startswith("--report=")).removeprefix(
        "--report="
    )
    for url in (urlsplit(report_url), urlsplit(settings_of("server", tmp_path)["member_server"])):
        assert url.scheme == "https"
        assert (url.port, str(url.hostname).split(".")[:2]) == (
            port["port"],
            [service["metadata"]["name"], service["metadata"]["namespace"]],
        )
    paths = {getattr(route, "path", "") for route in router.routes}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container("server")[probe]["httpGet"]
        assert (asked["port"], asked["scheme"]) == ("web", "HTTPS")
        assert asked["path"] in paths
