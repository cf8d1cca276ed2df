"""kubectl against the embedded API server: behaviour that depends on the kinds."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.binaries import kubectl_binary
from tests.helpers.objects.custom_resource import boat, definition

from kajitori.embedded.apiserver import certificates
from kajitori.embedded.apiserver.auth import ADMINISTRATOR, Authenticator
from kajitori.embedded.apiserver.server import ApiServer
from kajitori.embedded.store import Store

Kubectl = Callable[..., Awaitable[str]]
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "demo"},
    "spec": {"containers": [{"name": "main", "image": "i:1", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}]},
}


class Refused(Exception):
    """kubectl failed, with this error text."""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Run kubectl against a separate server. Documents are passed on standard input."""
    program = kubectl_binary()
    made = certificates.ensure_certificates(tmp_path / "pki")
    token = certificates.ensure_token(tmp_path / "token")
    store = Store()
    server = ApiServer(store, certificates=made, authenticator=Authenticator({token: ADMINISTRATOR}))
    await server.start()
    path = tmp_path / "kubeconfig"
    certificates.write_kubeconfig(path, server=server.url, certificates=made, token=token)
    environment = {**os.environ, "KUBECONFIG": str(path), "HOME": str(tmp_path)}

    async def run(*arguments: str, given: dict[str, Any] | None = None) -> str:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaint = await process.communicate(json.dumps(given).encode() if given else b"")
        if process.returncode:
            raise Refused(complaint.decode())
        return said.decode()

    try:
        yield run
    finally:
        await server.stop()
        await store.close()


async def test_auth_whoami_and_can_i(kubectl: Kubectl) -> None:
    """Both commands send protobuf."""
    assert "system:masters" in await kubectl("auth", "whoami")
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
    assert "*.*" in await kubectl("auth", "can-i", "--list")


async def test_api_resources_and_explain(kubectl: Kubectl) -> None:
    """Discovery lists kinds with their short names; explain knows their fields."""
    listed = await kubectl("api-resources")
    assert ["persistentvolumeclaims", "pvc"] in [line.split()[:2] for line in listed.splitlines()]
    assert "IfNotPresent" in await kubectl("explain", "pods.spec.containers.imagePullPolicy")


async def test_apply_shows_defaults_and_is_stable(kubectl: Kubectl) -> None:
    """A second apply changes nothing; the server refuses a misspelled field by name."""
    assert await kubectl("apply", "-f", "-", given=POD) == "pod/demo created\n"
    assert await kubectl("apply", "-f", "-", given=POD) == "pod/demo unchanged\n"
    shown = yaml.safe_load(await kubectl("get", "pod", "demo", "-o", "yaml"))
    assert shown["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert shown["status"]["qosClass"] == "Guaranteed"
    assert "QoS Class:        Guaranteed" in await kubectl("describe", "pod", "demo")
    wrong = json.loads(json.dumps(POD))
    wrong["metadata"]["name"] = "other"
    wrong["spec"]["containers"][0]["imagge"] = "x"
    with pytest.raises(Refused, match=r'unknown field "spec.containers\[0\].imagge"'):
        await kubectl("apply", "-f", "-", given=wrong)


async def test_all_faults_are_printed_at_once(kubectl: Kubectl) -> None:
    """kubectl prints each cause of a refused object."""
    wrong = json.loads(json.dumps(POD))
    wrong["spec"]["restartPolicy"] = "Sometimes"
    wrong["spec"]["containers"][0]["image"] = ""
    with pytest.raises(Refused) as refused:
        await kubectl("create", "-f", "-", given=wrong)
    text = str(refused.value)
    assert 'The Pod "demo" is invalid' in text
    assert "* spec.containers[0].image: Required value" in text
    assert '* spec.restartPolicy: Unsupported value: "Sometimes"' in text


async def test_dry_run_on_the_server(kubectl: Kubectl) -> None:
    """A dry run shows the object with its defaults and does not create it."""
    arguments = ("create", "configmap", "c", "--from-literal=a=b", "--dry-run=server", "-o", "yaml")
    assert yaml.safe_load(await kubectl(*arguments))["data"] == {"a": "b"}
    with pytest.raises(Refused, match="not found"):
        await kubectl("get", "configmap", "c")


async def test_quota_in_a_new_namespace(kubectl: Kubectl) -> None:
    """The namespace has its service account. The quota counts objects and refuses further ones."""
    await kubectl("create", "namespace", "vision")
    assert "default" in await kubectl("get", "serviceaccounts", "-n", "vision")
    await kubectl("create", "quota", "q", "--hard=pods=1,requests.cpu=2", "-n", "vision")
    await kubectl("apply", "-n", "vision", "-f", "-", given=POD)
    assert "pods: 1/1, requests.cpu: 1/2" in await kubectl("get", "quota", "-n", "vision")
    second = {**POD, "metadata": {"name": "second"}}
    with pytest.raises(Refused, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
        await kubectl("apply", "-n", "vision", "-f", "-", given=second)


async def test_custom_resources(kubectl: Kubectl) -> None:
    """A definition is served at once, with its columns, explain, validation and apply."""
    await kubectl("apply", "-f", "-", given=definition())
    await kubectl("wait", "--for=condition=Established", "crd/boats.sea.example", "--timeout=60s")
    assert await kubectl("apply", "-f", "-", given=boat(size=4)) == "boat.sea.example/b created\n"
    lines = (await kubectl("get", "bo")).splitlines()
    assert [line.split() for line in lines] == [["NAME", "SIZE", "PHASE"], ["b", "4"]]
    assert "FIELD: size <integer>" in await kubectl("explain", "boats.spec.size")
    with pytest.raises(Refused, match="should be greater than or equal to 1"):
        await kubectl("apply", "-f", "-", given=boat(size=0))
