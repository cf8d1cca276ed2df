"""deploy/agent.yaml: the agent accepts its command line, and does not use the API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kajitori.agent.policy import TrafficSection
from kajitori.cli.verbs.platform.agent import command
from kajitori.cluster.platform.agents import AUDIENCE
from kajitori.core.naming.names import AGENT_ACCOUNT

MANIFEST = Path(__file__).parents[3] / "deploy" / "agent.yaml"


@pytest.fixture
def documents() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def test_the_agent_accepts_its_command_line(documents: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option exists, and paths are inside mounted volumes."""
    (container,) = documents["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kaji", "agent"]
    monkeypatch.setenv("KAJI_NODE", "gpu-00012")
    found = command.make_context("agent", list(container["args"])).params
    assert (found["node"], found["port"], found["pods"]) == ("gpu-00012", 9465, None)
    mounts = [Path(volume["mountPath"]) for volume in container["volumeMounts"]]
    for option in ("data", "policy", "relay_token", "report_token", "relay_ca", "report_ca"):
        assert any(found[option] == mount or mount in found[option].parents for mount in mounts), option


def test_the_agent_has_no_rights_at_the_api_server(documents: dict[str, Any]) -> None:
    """Its account has no role, and its token is only for Kajitori."""
    assert documents.keys() == {"ConfigMap", "DaemonSet", "ServiceAccount"}
    spec = documents["DaemonSet"]["spec"]["template"]["spec"]
    meta = documents["ServiceAccount"]["metadata"]
    assert spec["serviceAccountName"] == meta["name"]
    assert f"{meta['namespace']}/{meta['name']}" == AGENT_ACCOUNT
    assert spec["automountServiceAccountToken"] is documents["ServiceAccount"]["automountServiceAccountToken"] is False
    (token,) = [volume["projected"]["sources"] for volume in spec["volumes"] if volume["name"] == "token"]
    assert [source["serviceAccountToken"]["audience"] for source in token] == [AUDIENCE]


def test_the_agents_policy_is_valid(documents: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(documents["ConfigMap"]["data"]["policy.yaml"])
    assert TrafficSection(tmp_path / "policy.yaml").current().every_seconds == 15
