"""The roles for users in deploy/rbac.yaml, on a real API server: what each role allows, and nothing more.

tests/cluster/parts tests the roles of Kajitori's parts, which have no other rights there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.harness.cluster import Cluster, run_manifest
from tests.harness.commands import Completed
from tests.harness.platform import deployed
from tests.harness.servers.real_server import RealServer
from tests.harness.web_api import WebApi, web_api
from tests.helpers.callers.rights import SUBMIT, Right, until_allowed

from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIMS, CUSTOM_RESOURCES, NODES, PODS, PRIORITY_CLASSES, SECRETS

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

PEOPLE = {
    "vera": ("kajitori-viewer",),
    "ada": ("kajitori-user", "kajitori-user-checkpoints"),
    "grace": ("kajitori-user",),
    "sofia": ("kajitori-user", "kajitori-user-secrets"),
}
"""The roles of each user in the namespace of the tests."""
RIGHTS: dict[str, Right] = {
    "kajitori-viewer": ("get", names.GROUP, names.PLURAL),
    "kajitori-user": SUBMIT,
    "kajitori-user-checkpoints": ("delete", "", "persistentvolumeclaims"),
    "kajitori-user-secrets": ("create", "", "secrets"),
    "kajitori-installer": ("create", CUSTOM_RESOURCES.group, CUSTOM_RESOURCES.plural),
}
"""A right of each role."""
SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "1s",
}


@dataclass(frozen=True)
class RoleScene:
    """A Web API with users."""

    web: WebApi
    tokens: dict[str, str]

    async def kaji(self, person: str, *arguments: str) -> Completed:
        return await self.web.kaji(*arguments, KAJI_TOKEN=self.tokens[person])

    async def kubectl(self, person: str, *arguments: str, stdin: str = "") -> Completed:
        """Run kubectl as that user, with the user's token in place of the administrator's."""
        return await self.web.cluster.kubectl(f"--token={self.tokens[person]}", *arguments, stdin=stdin)

    def client(self, person: str) -> KubeClient:
        return KubeClient(self.web.cluster.server.config.with_token(self.tokens[person]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(real_control_plane: RealServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RoleScene]:
    """The roles as delivered, bound to service accounts."""
    async with Cluster(real_control_plane, tmp_path_factory.mktemp("town")).running() as cluster:
        cluster.use_policy(checkpoint={"kind": "claim"})
        cluster.start_controller()
        namespace = cluster.namespace
        documents = [document for document in deployed.manifest("rbac.yaml") if document["kind"] == "ClusterRole"]
        bindings = [("RoleBinding", person, role) for person, roles in PEOPLE.items() for role in roles]
        for kind, person, role in (*bindings, ("ClusterRoleBinding", "ines", "kajitori-installer")):
            documents.append(_binding(kind, person, role, namespace))
        people = [*PEOPLE, "ines"]
        documents += [_account(person, namespace) for person in people]
        applied = await cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
        assert applied.returncode == 0, applied
        tokens = {person: (await cluster.kubectl("create", "token", person)).stdout.strip() for person in people}
        for _, person, role in bindings:
            user = f"system:serviceaccount:{namespace}:{person}"
            await until_allowed(cluster.client, namespace, RIGHTS[role], user=user)
        installer = f"system:serviceaccount:{namespace}:ines"
        await until_allowed(cluster.client, "", RIGHTS["kajitori-installer"], user=installer)
        async with web_api(cluster) as web:
            yield RoleScene(web, tokens)


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


async def test_a_viewer_sees_runs_and_changes_nothing(scene: RoleScene) -> None:
    """A viewer can change nothing, neither through Kajitori nor with kubectl, and may not read Pods, logs or
    Secrets."""
    cluster = scene.web.cluster
    await cluster.submit("theirs")
    await cluster.reaches("theirs", Phase.RUNNING)
    before = await cluster.client.get(RUNS, "theirs", cluster.namespace)
    assert "theirs" in (await scene.kaji("vera", "ps", "--all-users")).stdout
    shown = await scene.kaji("vera", "describe", "theirs")
    assert shown.returncode == 0 and "theirs" in shown.stdout, shown
    assert "theirs" in (await scene.kubectl("vera", "get", "runs")).stdout
    for refused in (
        await scene.kaji("vera", "run", "-d", "--name", "hers", "bert:3", "train"),
        await scene.kaji("vera", "stop", "theirs"),
        await scene.kaji("vera", "rm", "-f", "theirs"),
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
        refused = await scene.kubectl("vera", *arguments, stdin=run_manifest("hers", SPEC))
        assert refused.returncode == 1 and "orbidden" in refused.stderr, (arguments, refused)
    assert (await scene.kaji("vera", "logs", "theirs")).returncode == 2
    assert cluster.run("hers") is None
    after = await cluster.client.get(RUNS, "theirs", cluster.namespace)
    assert (after["spec"], after["metadata"]["uid"]) == (before["spec"], before["metadata"]["uid"])


async def test_deleting_a_checkpoint_needs_its_own_role(scene: RoleScene) -> None:
    """Without the role, a user can delete a run only without its checkpoint. With the role, both are deleted
    together."""
    cluster = scene.web.cluster
    for person in ("grace", "ada"):
        run = f"of-{person}"
        made = await scene.kaji(person, "run", "-d", "--name", run, "--checkpoint", "/ckpt:1Gi", "bert:3", "train")
        assert made.returncode == 0, made
        await cluster.until(lambda name=run: cluster.pods(name), f"the member of {run}")  # type: ignore[misc]
        claim = names.checkpoint_claim(run)
        assert (await cluster.client.get(CLAIMS, claim, cluster.namespace))["spec"]["resources"]["requests"]
        answer = await scene.kaji(person, "rm", "-f", "-v", run)
        if person == "grace":
            assert answer.returncode == 2 and "persistentvolumeclaims" in answer.stderr, answer
            assert cluster.run(run) is not None and not await _is_deleted(scene, claim), "both go, or none"
            assert (await scene.kaji(person, "rm", "-f", run)).returncode == 0
        else:
            assert answer.returncode == 0, answer
            assert await _is_deleted(scene, claim)
        await cluster.until(lambda name=run: cluster.run(name) is None, f"{run} gone")  # type: ignore[misc]
    assert not await _is_deleted(scene, names.checkpoint_claim("of-grace")), "it outlives its run"
    async with scene.client("ada") as ada:
        for forbidden in (ada.list(SECRETS, cluster.namespace), ada.delete(PODS, "theirs-1-0", cluster.namespace)):
            with pytest.raises(Forbidden):
                await forbidden


async def test_using_secrets_needs_its_own_role(scene: RoleScene) -> None:
    """With the role a user creates, replaces, lists, uses and deletes a secret, and never sees its value. Without it,
    each of these is refused."""
    cluster, file = scene.web.cluster, scene.web.cluster.folder / "value"
    file.write_text("s3cr3t")
    made = ("secret", "create", "wandb", "--from-file", f"key={file}")
    refused = [await scene.kaji("grace", *words) for words in (made, ("secret", "ls"), ("secret", "rm", "wandb"))]
    assert [answer.returncode for answer in refused] == [2, 2, 2], refused
    assert (await scene.kaji("sofia", *made)).returncode == 0
    assert (await scene.kaji("sofia", *made)).returncode == 2, "it is there"
    assert (await scene.kaji("sofia", *made, "--replace")).returncode == 0
    listed = await scene.kaji("sofia", "secret", "ls")
    assert "wandb" in listed.stdout and "key" in listed.stdout and "s3cr3t" not in listed.stdout, listed
    used = await scene.kaji("sofia", "run", "-d", "--name", "tracked", "--secret", "wandb", "bert:3", "train")
    assert used.returncode == 0, used
    await cluster.until(lambda: cluster.run("tracked") is not None, "the run is known")
    assert "used by tracked" in (await scene.kaji("sofia", "secret", "rm", "wandb")).stderr
    assert (await scene.kaji("sofia", "rm", "-f", "tracked")).returncode == 0
    assert (await scene.kaji("sofia", "secret", "rm", "wandb")).returncode == 0


async def _is_deleted(scene: RoleScene, claim: str) -> bool:
    """Return whether a claim is deleted, or only kept by its protection finalizer, which nothing removes here."""
    try:
        found = await scene.web.cluster.client.get(CLAIMS, claim, scene.web.cluster.namespace)
    except NotFound:
        return True
    return bool(found["metadata"].get("deletionTimestamp"))


async def test_an_installer_can_install_and_do_nothing_else(scene: RoleScene) -> None:
    """Deleted definitions are restored. Runs, Pods, nodes and Secrets are forbidden."""
    admin, namespace = scene.web.cluster.client, scene.web.cluster.namespace
    (definition,) = [
        definition
        for definition in (await admin.list(CUSTOM_RESOURCES)).items
        if definition["spec"]["group"] == names.GROUP
    ]
    name = definition["metadata"]["name"]
    await admin.delete(PRIORITY_CLASSES, names.PRIORITY_CLASS)
    await admin.patch(CUSTOM_RESOURCES, name, {"spec": {"names": {"shortNames": ["other"]}}})
    async with scene.client("ines") as ines:
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
