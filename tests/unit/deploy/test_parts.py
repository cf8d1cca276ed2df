"""deploy/server.yaml and deploy/controller.yaml: the parts take what they are told there, find what they need, and are
found by whoever asks them."""

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
from kajitori.configuration.settings import LEASE_NAMESPACE, ControllerOptions, ServerOptions
from kajitori.core.network.registry import parse_networks
from kajitori.core.policy.file import parse_policy
from kajitori.core.words.names import AGENT_ACCOUNT
from kajitori.install.workloads import TLS_FOLDER
from kajitori.monitoring.probes import ProbeServer

DEPLOY = Path(__file__).parents[3] / "deploy"
PARTS: dict[str, click.Command] = {"server": server, "controller": controller}
OPTIONS: dict[str, Any] = {"server": ServerOptions, "controller": ControllerOptions}


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()) if each]


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


def container(part: str) -> dict[str, Any]:
    (found,) = one(part, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def told(part: str, folder: Path) -> dict[str, Any]:
    """The settings that its command line gives, with the ConfigMap's files in `folder`."""
    (mount,) = [each for each in container(part)["volumeMounts"] if each["name"] == "policy"]
    for name, text in one("policy", "ConfigMap")["data"].items():
        (folder / name).write_text(text)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (folder / name).write_text("")
    tls, policy = f"{TLS_FOLDER}/", f"{mount['mountPath']}/"
    arguments = [each.replace(tls, f"{folder}/").replace(policy, f"{folder}/") for each in container(part)["args"]]
    return PARTS[part].make_context(part, arguments).params


@pytest.mark.parametrize("part", PARTS)
def test_its_command_line(part: str, tmp_path: Path) -> None:
    """Every option exists, and it names files of the ConfigMap, which are valid."""
    assert container(part)["command"] == ["kaji", part]
    found = told(part, tmp_path)
    parse_policy(found["policy"].read_bytes())
    OPTIONS[part](**found)
    assert found["member_image"] and found["member_server"] and found["member_ca"] and found["certificate"]
    if part == "server":
        parse_networks(found["networks"].read_bytes())
        assert found["agent_account"] == AGENT_ACCOUNT
    else:
        assert found["namespace"] == LEASE_NAMESPACE
    (volume,) = [v for v in one(part, "Deployment")["spec"]["template"]["spec"]["volumes"] if v["name"] == "policy"]
    assert volume["configMap"]["name"] == one("policy", "ConfigMap")["metadata"]["name"]


@pytest.mark.parametrize("part", [*PARTS, "relay"])
def test_its_account_has_the_roles_of_rbac_yaml(part: str) -> None:
    """Its Pods run under their own account and with no more rights on the machine than they need."""
    roles = {(each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) for each in documents("rbac")}
    account = one(part, "ServiceAccount")["metadata"]
    bindings = [each for each in documents(part) if each["kind"].endswith("RoleBinding")]
    assert bindings
    for binding in bindings:
        ref = binding["roleRef"]
        namespace = binding["metadata"].get("namespace") if ref["kind"] == "Role" else None
        assert (ref["kind"], ref["name"], namespace) in roles
        assert [(each["name"], each["namespace"]) for each in binding["subjects"]] == [
            (account["name"], account["namespace"])
        ]
    spec = one(part, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == account["name"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container(part)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("part", PARTS)
def test_its_pods_are_those_that_are_meant(part: str) -> None:
    """Deployment, budget, spread and Service select the same Pods; there are several, so that one may be away."""
    deployment = one(part, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"], one(part, "PodDisruptionBudget")["spec"]["selector"]]
    selectors += [each["labelSelector"] for each in deployment["template"]["spec"]["topologySpreadConstraints"]]
    assert [each["matchLabels"] for each in selectors] == [labels] * 3
    assert deployment["replicas"] > one(part, "PodDisruptionBudget")["spec"]["maxUnavailable"]
    if part == "server":
        assert one(part, "Service")["spec"]["selector"] == labels


def test_the_controller_is_asked_where_it_listens(tmp_path: Path) -> None:
    """Kubelets and Prometheus ask at paths that its server has, and the log is JSON."""
    found = told("controller", tmp_path)
    (port,) = container("controller")["ports"]
    assert (found["host"], found["port"], found["log_format"]) == ("0.0.0.0", port["containerPort"], "json")
    probes = ProbeServer(CollectorRegistry(), host="", port=0, ready=str)
    for name in ("readinessProbe", "livenessProbe"):
        asked = container("controller")[name]["httpGet"]
        assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS")
        assert asked["path"] in probes.paths


def test_the_web_api_is_where_others_look_for_it(tmp_path: Path) -> None:
    """Agents, members and probes use the Service's name and port, and paths that exist."""
    service = one("server", "Service")
    (port,) = service["spec"]["ports"]
    assert told("server", tmp_path)["port"] == port["port"] == container("server")["ports"][0]["containerPort"]
    assert port["targetPort"] == container("server")["ports"][0]["name"]
    (agent,) = one("agent", "DaemonSet")["spec"]["template"]["spec"]["containers"]
    agents_word = next(each for each in agent["args"] if each.startswith("--report=")).removeprefix("--report=")
    for url in (urlsplit(agents_word), urlsplit(told("server", tmp_path)["member_server"])):
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
