"""The roles of deploy/rbac.yaml that people are given, on a real API server: what each lets do, and nothing more.

Those of the parts are proven by tests/cluster/parts, where each part has no other rights.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.harness import deployed
from tests.harness.cluster import Cluster, run_manifest
from tests.harness.commands import Completed
from tests.harness.real_server import RealServer
from tests.harness.web_api import WebApi, web_api

from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.platform.install import install
from kajitori.kube.resources import CLAIMS, CUSTOM_RESOURCES, NODES, PODS, PRIORITY_CLASSES, SECRETS
from kajitori.kube.runs import RUNS

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

PEOPLE = {
    "vera": ("kajitori-viewer",),
    "ada": ("kajitori-user", "kajitori-user-checkpoints"),
    "grace": ("kajitori-user",),
    "sofia": ("kajitori-user", "kajitori-user-secrets"),
}
"""Who has which roles, in the namespace of the tests."""
SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "1s",
}


@dataclass(frozen=True)
class Town:
    """A web with people on it."""

    web: WebApi
    tokens: dict[str, str]

    async def kaji(self, person: str, *arguments: str) -> Completed:
        return await self.web.kaji(*arguments, KAJI_TOKEN=self.tokens[person])

    async def kubectl(self, person: str, *arguments: str, stdin: str = "") -> Completed:
        """As that person; the token takes the place of the administrator's."""
        return await self.web.cluster.kubectl(f"--token={self.tokens[person]}", *arguments, stdin=stdin)

    def client(self, person: str) -> KubeClient:
        return KubeClient(self.web.cluster.server.config.with_token(self.tokens[person]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(real_control_plane: RealServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    """The roles as they are delivered, bound to service accounts."""
    async with Cluster(real_control_plane, tmp_path_factory.mktemp("town")).running() as cluster:
        cluster.use_policy(checkpoint={"kind": "claim"})
        cluster.start_controller()
        namespace = cluster.namespace
        documents = [each for each in deployed.manifest("rbac.yaml") if each["kind"] == "ClusterRole"]
        bindings = [("RoleBinding", person, role) for person, roles in PEOPLE.items() for role in roles]
        for kind, person, role in (*bindings, ("ClusterRoleBinding", "ines", "kajitori-installer")):
            documents.append(_binding(kind, person, role, namespace))
        people = [*PEOPLE, "ines"]
        documents += [_account(person, namespace) for person in people]
        applied = await cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
        assert applied.returncode == 0, applied
        tokens = {person: (await cluster.kubectl("create", "token", person)).stdout.strip() for person in people}
        async with web_api(cluster) as web:
            yield Town(web, tokens)


def _account(person: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": person, "namespace": namespace}}


def _binding(kind: str, person: str, role: str, namespace: str) -> dict[str, Any]:
    where = {"namespace": namespace} if kind == "RoleBinding" else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{person}-{role}", **where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": person, "namespace": namespace}],
    }


async def test_a_viewer_sees_runs_and_changes_nothing(town: Town) -> None:
    """Neither through Kajitori nor with kubectl; Pods, logs and Secrets are not a viewer's either."""
    cluster = town.web.cluster
    await cluster.submit("theirs")
    await cluster.reaches("theirs", Phase.RUNNING)
    before = await cluster.client.get(RUNS, "theirs", cluster.namespace)
    assert "theirs" in (await town.kaji("vera", "ps", "--all-users")).stdout
    shown = await town.kaji("vera", "describe", "theirs")
    assert shown.returncode == 0 and "theirs" in shown.stdout, shown
    assert "theirs" in (await town.kubectl("vera", "get", "runs")).stdout
    for refused in (
        await town.kaji("vera", "run", "-d", "--name", "hers", "bert:3", "train"),
        await town.kaji("vera", "stop", "theirs"),
        await town.kaji("vera", "rm", "-f", "theirs"),
    ):
        assert refused.returncode == 2 and "kubectl auth can-i" in refused.stderr, refused
    for arguments in (
        ("delete", "run", "theirs"),
        ("patch", "run", "theirs", "--type=merge", "--patch", '{"spec": {"stopped": true}}'),
        ("create", "-f", "-"),
        ("patch", "run", "theirs", "--subresource=status", "--type=merge", "--patch", '{"status": {"restarts": 3}}'),
        ("get", "pods"),
        ("get", "secrets"),
    ):
        refused = await town.kubectl("vera", *arguments, stdin=run_manifest("hers", SPEC))
        assert refused.returncode == 1 and "orbidden" in refused.stderr, (arguments, refused)
    assert (await town.kaji("vera", "logs", "theirs")).returncode == 2
    assert cluster.run("hers") is None
    after = await cluster.client.get(RUNS, "theirs", cluster.namespace)
    assert (after["spec"], after["metadata"]["uid"]) == (before["spec"], before["metadata"]["uid"])


async def test_a_checkpoint_goes_only_with_who_may_delete_it(town: Town) -> None:
    """Without that role a run can't be deleted with its checkpoint, only without; with it both go."""
    cluster = town.web.cluster
    for person in ("grace", "ada"):
        run = f"of-{person}"
        made = await town.kaji(person, "run", "-d", "--name", run, "--checkpoint", "/ckpt:1Gi", "bert:3", "train")
        assert made.returncode == 0, made
        await cluster.until(lambda name=run: cluster.pods(name), f"the member of {run}")  # type: ignore[misc]
        claim = names.checkpoint_claim(run)
        assert (await cluster.client.get(CLAIMS, claim, cluster.namespace))["spec"]["resources"]["requests"]
        answer = await town.kaji(person, "rm", "-f", "-v", run)
        if person == "grace":
            assert answer.returncode == 2 and "persistentvolumeclaims" in answer.stderr, answer
            assert cluster.run(run) is not None and not await _is_going(town, claim), "both go, or none"
            assert (await town.kaji(person, "rm", "-f", run)).returncode == 0
        else:
            assert answer.returncode == 0, answer
            assert await _is_going(town, claim)
        await cluster.until(lambda name=run: cluster.run(name) is None, f"{run} gone")  # type: ignore[misc]
    assert not await _is_going(town, names.checkpoint_claim("of-grace")), "it outlives its run"
    async with town.client("ada") as ada:
        for forbidden in (ada.list(SECRETS, cluster.namespace), ada.delete(PODS, "theirs-1-0", cluster.namespace)):
            with pytest.raises(Forbidden):
                await forbidden


async def test_secrets_are_for_who_may_have_them(town: Town) -> None:
    """With the role a secret is made, replaced, seen without its value, used and deleted; without it none of that."""
    cluster, file = town.web.cluster, town.web.cluster.folder / "value"
    file.write_text("s3cr3t")
    made = ("secret", "create", "wandb", "--from-file", f"key={file}")
    refused = [await town.kaji("grace", *words) for words in (made, ("secret", "ls"), ("secret", "rm", "wandb"))]
    assert [answer.returncode for answer in refused] == [2, 2, 2], refused
    assert (await town.kaji("sofia", *made)).returncode == 0
    assert (await town.kaji("sofia", *made)).returncode == 2, "it is there"
    assert (await town.kaji("sofia", *made, "--replace")).returncode == 0
    listed = await town.kaji("sofia", "secret", "ls")
    assert "wandb" in listed.stdout and "key" in listed.stdout and "s3cr3t" not in listed.stdout, listed
    used = await town.kaji("sofia", "run", "-d", "--name", "tracked", "--secret", "wandb", "bert:3", "train")
    assert used.returncode == 0, used
    await cluster.until(lambda: cluster.run("tracked") is not None, "the run is known")
    assert "used by tracked" in (await town.kaji("sofia", "secret", "rm", "wandb")).stderr
    assert (await town.kaji("sofia", "rm", "-f", "tracked")).returncode == 0
    assert (await town.kaji("sofia", "secret", "rm", "wandb")).returncode == 0


async def _is_going(town: Town, claim: str) -> bool:
    """Whether a claim is gone, or kept by its protection alone: nobody here takes that away."""
    try:
        found = await town.web.cluster.client.get(CLAIMS, claim, town.web.cluster.namespace)
    except NotFound:
        return True
    return bool(found["metadata"].get("deletionTimestamp"))


async def test_an_installer_installs_and_does_nothing_else(town: Town) -> None:
    """What was removed is there again, as it was; runs, Pods, nodes and Secrets are not an installer's."""
    admin, namespace = town.web.cluster.client, town.web.cluster.namespace
    (definition,) = [
        each for each in (await admin.list(CUSTOM_RESOURCES)).items if each["spec"]["group"] == names.GROUP
    ]
    name = definition["metadata"]["name"]
    await admin.delete(PRIORITY_CLASSES, names.PRIORITY_CLASS)
    await admin.patch(CUSTOM_RESOURCES, name, {"spec": {"names": {"shortNames": ["other"]}}})
    async with town.client("ines") as ines:
        await install(ines)
        assert (await admin.get(PRIORITY_CLASSES, names.PRIORITY_CLASS))["preemptionPolicy"] == "Never"
        assert (await admin.get(CUSTOM_RESOURCES, name))["spec"] == definition["spec"]
        role = {"metadata": {"name": "more"}, "rules": []}
        pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        attempts = [
            ines.delete(CUSTOM_RESOURCES, name),
            ines.delete(PRIORITY_CLASSES, names.PRIORITY_CLASS),
            ines.list(RUNS, namespace),
            ines.create(PODS, pod, namespace),
            ines.list(NODES),
            ines.list(SECRETS, namespace),
            ines.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", body=role),
        ]
        for attempt in attempts:
            with pytest.raises(KajitoriError) as refused:
                await attempt
            assert isinstance(refused.value, Forbidden), refused.value
