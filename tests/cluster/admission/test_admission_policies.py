"""ValidatingAdmissionPolicy on the embedded and on a real API server, above all the policy that protects owners of
runs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.kube_server import USERS, KubeServer

from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.admission.member_policy import MEMBER_POLICY_NAME
from kajitori.core.admission.owner_policy import POLICY_NAME
from kajitori.core.naming import names
from kajitori.errors import Forbidden, InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, VALIDATING_BINDINGS, VALIDATING_POLICIES, Resource

pytestmark = pytest.mark.conformance

TRIES = 100
"""A real API server applies a new policy a moment after its creation."""
OWNER = names.ANNOTATION_OWNER


def run(name: str, owner: str | None = None, **annotations: str) -> dict[str, Any]:
    """Return a Run with this owner, as a user writes it."""
    written = annotations if owner is None else {OWNER: owner, **annotations}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "annotations": written},
        "spec": {"image": "bert:3"},
    }


async def let_work(cluster: KubeServer, namespace: str, resources: tuple[str, ...] = ("*",)) -> None:
    """Let all users do everything with these resources of the namespace, if the server has roles."""
    group = "rbac.authorization.k8s.io"
    async with cluster.client() as admin:
        rules = [{"apiGroups": ["*"], "resources": list(resources), "verbs": ["*"]}]
        if not await serves(admin, group):
            return
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "all"}, "rules": rules}
        await admin.create(Resource(group, "v1", "roles", "Role"), role, namespace)
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "all"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "all"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user} for user in USERS],
        }
        await admin.create(Resource(group, "v1", "rolebindings", "RoleBinding"), binding, namespace)


async def serves(client: KubeClient, group: str) -> bool:
    """Return whether the server has this API group."""
    with contextlib.suppress(NotFound):
        return bool(await client.request("GET", f"/apis/{group}"))
    return False


async def until_refused(ask: Callable[[], Awaitable[Any]]) -> KajitoriError:
    """Repeat a request until a policy refuses it, and return the error. The refused request has stored nothing."""
    for _ in range(TRIES):
        try:
            await ask()
        except (Forbidden, InvalidInput) as error:
            if "ValidatingAdmissionPolicy" in error.message:
                return error
        await asyncio.sleep(0.1)
    raise AssertionError("never refused")


@pytest.fixture
async def ada(kube_server: KubeServer, own_namespace: str) -> AsyncIterator[KubeClient]:
    """A user who may work in the namespace. Kajitori's definitions and policies are installed and in force."""
    async with kube_server.client() as admin:
        await install(admin)
        await let_work(kube_server, own_namespace)
        async with kube_server.client("ada") as client:
            await until_refused(lambda: client.create(RUNS, run("probe", "grace"), own_namespace, dry_run=True))
            yield client
        for item in (await admin.list(RUNS, own_namespace)).items:
            await admin.delete(RUNS, item["metadata"]["name"], own_namespace)


async def test_nobody_submits_a_run_in_another_users_name(ada: KubeClient, own_namespace: str) -> None:
    """Users may write their own name or leave it out. A refusal of another name says what is allowed."""
    with pytest.raises(Forbidden) as caught:
        await ada.create(RUNS, run("bert", "grace"), own_namespace)
    assert caught.value.message == (
        f"runs.kajitori.dev \"bert\" is forbidden: ValidatingAdmissionPolicy '{POLICY_NAME}' with binding "
        f"'{POLICY_NAME}' denied request: the owner of a run must be the user who submits it: "
        f"leave the annotation {OWNER} out, or write "
        "ada"
    )
    with pytest.raises(Forbidden):
        await ada.patch(
            RUNS, "bert", run("bert", "grace"), own_namespace, kind=PatchKind.APPLY, field_manager="ada", force=True
        )
    with pytest.raises(Forbidden):
        await ada.create(RUNS, run("bert", "x" * 1025), own_namespace)
    assert (await ada.list(RUNS, own_namespace)).items == []
    for number, owner in enumerate(("ada", "", None)):
        made = await ada.create(RUNS, run(f"bert-{number}", owner), own_namespace)
        assert (made["metadata"].get("annotations") or {}).get(OWNER) == owner


async def test_the_owner_of_a_run_cannot_be_changed(
    kube_server: KubeServer, ada: KubeClient, own_namespace: str
) -> None:
    """Neither the owner nor another user nor an administrator can change or remove it. Everything else can be
    changed."""
    await ada.create(RUNS, run("hers", "ada"), own_namespace)
    await ada.create(RUNS, run("nobodys"), own_namespace)
    async with kube_server.client("grace") as grace, kube_server.client() as admin:
        for client in (ada, grace, admin):
            for name, owner in (("hers", "grace"), ("hers", None), ("nobodys", "ada"), ("nobodys", "grace")):
                with pytest.raises(Forbidden) as caught:
                    await client.patch(RUNS, name, {"metadata": {"annotations": {OWNER: owner}}}, own_namespace)
                assert "cannot be changed" in caught.value.message
        whole = await grace.get(RUNS, "hers", own_namespace)
        whole["metadata"]["annotations"] = {}
        with pytest.raises(Forbidden):
            await grace.replace(RUNS, whole)
        change = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["kajitori.dev/x"]}}
        await grace.patch(RUNS, "hers", change | {"spec": {"stopped": True}}, own_namespace)
        await admin.patch(RUNS, "hers", {"status": {"phase": "Running"}}, own_namespace, subresource="status")
        await admin.patch(RUNS, "hers", {"metadata": {"finalizers": None}}, own_namespace)
        assert (await admin.get(RUNS, "hers", own_namespace))["metadata"]["annotations"] == {OWNER: "ada", "c": "d"}


async def test_runs_older_than_the_policy_can_be_changed_and_deleted(
    kube_server: KubeServer, own_namespace: str
) -> None:
    """Such runs may have any text as their owner."""
    async with kube_server.client() as admin:
        await install(admin)
        await admin.delete(VALIDATING_BINDINGS, POLICY_NAME)
        for _ in range(TRIES):
            with contextlib.suppress(Forbidden):
                await admin.create(RUNS, run("old", "somebody"), own_namespace)
                break
            await asyncio.sleep(0.1)
        await install(admin)
        await until_refused(lambda: admin.create(RUNS, run("new", "somebody"), own_namespace, dry_run=True))
        await admin.patch(RUNS, "old", {"spec": {"stopped": True}}, own_namespace)
        await admin.delete(RUNS, "old", own_namespace)


def pod(name: str, labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    """Return a Pod that never starts."""
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "none"}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
async def with_roles(kube_server: KubeServer) -> AsyncIterator[KubeServer]:
    """The server, with roles that decide what users may do."""
    if kube_server.is_real:
        yield kube_server
        return
    async with embedded_server(users=USERS, roles=True) as embedded:
        yield embedded


async def test_only_controllers_make_a_pod_a_member(with_roles: KubeServer) -> None:
    """Users may change everything else in Pods."""
    own_namespace = f"test-{secrets.token_hex(4)}"
    member = names.member_labels("bert", "uid-1", 1, 0)
    changes: tuple[dict[str, Any], ...] = (
        {"labels": {names.LABEL_RUN_UID: "uid-2"}},
        {"labels": {names.LABEL_RUN_UID: None}},
        {"labels": {names.LABEL_RANK: "7"}},
        {"annotations": {names.ANNOTATION_OWNER: "ada"}},
        {"annotations": {names.ANNOTATION_SIGNATURE: None}},
    )
    async with with_roles.client() as admin, with_roles.client("ada") as ada:
        await install(admin)
        await admin.create(NAMESPACES, {"metadata": {"name": own_namespace}})
        await let_work(with_roles, own_namespace, ("pods", "runs"))
        refused = await until_refused(lambda: ada.create(PODS, pod("forged", member), own_namespace, dry_run=True))
        assert MEMBER_POLICY_NAME in refused.message and "only Kajitori's controller" in refused.message
        await admin.create(PODS, pod("bert-1-0", member, **{names.ANNOTATION_SIGNATURE: "x"}), own_namespace)
        await ada.create(PODS, pod("plain", {"app": "hers"}), own_namespace)
        join = {"metadata": {"labels": member}}
        attempts = [("plain", join), *(("bert-1-0", {"metadata": change}) for change in changes)]
        for name, patch in attempts:
            with pytest.raises(Forbidden) as caught:
                await ada.patch(PODS, name, patch, own_namespace)
            assert MEMBER_POLICY_NAME in caught.value.message, patch
        for name in ("bert-1-0", "plain"):
            own = {"labels": {"team": "vision"}, "annotations": {"note": "x", f"{names.GROUP}/gpus": "GPU-1"}}
            await ada.patch(PODS, name, {"metadata": own | {"finalizers": ["example.org/x"]}}, own_namespace)
            await ada.patch(PODS, name, {"metadata": {"finalizers": None}}, own_namespace)
        for _, patch in attempts:
            await admin.patch(PODS, "bert-1-0", patch, own_namespace)
        for name in ("bert-1-0", "plain"):
            await ada.delete(PODS, name, own_namespace, grace_seconds=0)
        await admin.delete(NAMESPACES, own_namespace)


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
OPERATIONS = ["CREATE", "UPDATE", "DELETE"]
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": OPERATIONS, "resources": ["configmaps"]}


class PolicyUnderTest:
    """A policy that is in force in one namespace and is deleted at the end."""

    def __init__(self, admin: KubeClient, namespace: str, asking: KubeClient | None = None) -> None:
        """`asking`: the client that creates ConfigMaps."""
        self.admin = admin
        self.asking = asking or admin
        self.namespace = namespace
        self.name = f"test-{secrets.token_hex(4)}"

    @contextlib.asynccontextmanager
    async def in_force(self, spec: dict[str, Any], binding: dict[str, Any] | None = None) -> AsyncIterator[None]:
        here = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        constraints = {"resourceRules": [RULE], "namespaceSelector": here} | spec.pop("matchConstraints", {})
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": self.name},
            "spec": {"matchConstraints": constraints, **spec},
        }
        bound = {"policyName": self.name, "validationActions": ["Deny"], **(binding or {})}
        await self.admin.create(VALIDATING_POLICIES, policy)
        document = {**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound}
        await self.admin.create(VALIDATING_BINDINGS, document)
        try:
            yield
        finally:
            await self.admin.delete(VALIDATING_BINDINGS, self.name)
            await self.admin.delete(VALIDATING_POLICIES, self.name)

    async def refusal(self, name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> str:
        """Return the message for a refused ConfigMap, without the part that names the policy."""
        body = {**CONFIG, "metadata": {"name": name, "labels": labels or {}}, "data": data}
        error = await until_refused(lambda: self.asking.create(CONFIG_MAPS, body, self.namespace, dry_run=True))
        said = f"ValidatingAdmissionPolicy '{self.name}' with binding '{self.name}' denied request: "
        return error.message.partition(said)[2]

    async def takes(self, name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> None:
        """Check that this ConfigMap is admitted."""
        body = {**CONFIG, "metadata": {"name": name, "labels": labels or {}}, "data": data}
        await self.asking.create(CONFIG_MAPS, body, self.namespace, dry_run=True)


VALIDATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("the rule itself", {"expression": " object.data.a != 'bad' "}, "failed expression: object.data.a != 'bad'"),
    ("a message", {"expression": "object.data.a != 'bad'", "message": " no bad ones "}, "no bad ones"),
    (
        "a message about the object",
        {"expression": "object.data.a != 'bad'", "messageExpression": "object.metadata.name + ' by ' + variables.who"},
        "x by ada",
    ),
    (
        "a message that fails",
        {"expression": "object.data.a != 'bad'", "message": "plain", "messageExpression": "string(object.nosuch.part)"},
        "plain",
    ),
    (
        "a message of two lines",
        {"expression": "object.data.a != 'bad'", "messageExpression": "'a' + string(size(object.data)) + '\\n'"},
        "a1",
    ),
    ("macros", {"expression": "object.data.all(k, object.data[k].matches('^[a-c]+$'))", "message": "m"}, "m"),
    ("optionals", {"expression": "object.metadata.?labels[?'x'].orValue('') == 'y'", "message": "o"}, "o"),
    ("what is asked", {"expression": "request.operation == 'UPDATE' && request.name == 'y'", "message": "r"}, "r"),
    ("the old object", {"expression": "oldObject != null", "message": "new"}, "new"),
    (
        "the namespace",
        {"expression": "namespaceObject.metadata.name != request.namespace", "message": "n"},
        "n",
    ),
    (
        "rights of the user",
        {
            "expression": "!authorizer.group('').resource('pods').namespace(request.namespace).check('get').allowed()",
            "message": "may",
        },
        "may",
    ),
    (
        "a part that is not there",
        {"expression": "object.spec.replicas > 1"},
        "expression 'object.spec.replicas > 1' resulted in error: no such key: spec",
    ),
    (
        "a variable that fails",
        {"expression": "variables.fails == 1"},
        "expression 'variables.fails == 1' resulted in error: composited variable \"fails\" fails to evaluate: "
        "no such key: nosuch",
    ),
    (
        "one of several",
        {"expression": "variables.fails == 1 || object.data.a != 'bad'"},
        "expression 'variables.fails == 1 || object.data.a != 'bad'' resulted in error: composited variable \"fails\" "
        "fails to evaluate: no such key: nosuch",
    ),
]


async def test_messages_of_a_policy(ada: KubeClient, own_namespace: str, kube_server: KubeServer) -> None:
    """Both servers give the same messages, for violations and for expressions that cannot be evaluated."""
    variables = [
        {"name": "who", "expression": "request.userInfo.username"},
        {"name": "fails", "expression": "object.nosuch.part"},
    ]
    async with kube_server.client() as admin, contextlib.AsyncExitStack() as policies:
        rules = {case: PolicyUnderTest(admin, own_namespace, ada) for case, *_ in VALIDATIONS}
        for number, (case, validation, _) in enumerate(VALIDATIONS):
            only = {"name": "case", "expression": f"object.metadata.labels.case == '{number}'"}
            spec = {"variables": variables, "validations": [validation], "matchConditions": [only]}
            await policies.enter_async_context(rules[case].in_force(spec))
        found = [
            (case, await rule.refusal("x", {"a": "bad"}, {"case": str(number)}))
            for number, (case, rule) in enumerate(rules.items())
        ]
    assert found == [(case, said) for case, _, said in VALIDATIONS]


EVERY = [{"expression": "false", "message": "no"}]
MATCHES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, str], dict[str, str], str]] = [
    # case, policy, binding, labels of the object that is refused, labels of the object that is admitted, the refusal
    (
        "labels of the object",
        {"matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}},
        {},
        {"a": "b"},
        {},
        "no",
    ),
    (
        "labels that the binding wants",
        {},
        {"matchResources": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
        {"a": ""},
        {},
        "no",
    ),
    (
        "a condition",
        {"matchConditions": [{"name": "marked", "expression": "has(object.metadata.labels)"}]},
        {},
        {"a": "b"},
        {},
        "no",
    ),
    (
        "a condition that fails beside one that does not hold",
        {
            "matchConditions": [
                {"name": "fails", "expression": "object.nosuch.part == 1"},
                {"name": "marked", "expression": "has(object.metadata.labels)"},
            ]
        },
        {},
        {"a": "b"},
        {},
        "expression 'object.nosuch.part == 1' resulted in error: no such key: nosuch",
    ),
    (
        "what it leaves out",
        {
            "matchConstraints": {"excludeResourceRules": [RULE | {"resourceNames": ["other"]}]},
            "matchConditions": [{"name": "x", "expression": "true"}],
        },
        {},
        {},
        {},
        "no",
    ),
]


@pytest.mark.parametrize(
    ("spec", "binding", "refused", "admitted", "said"),
    [case[1:] for case in MATCHES],
    ids=[case[0] for case in MATCHES],
)
async def test_which_requests_a_policy_checks(
    kube_server: KubeServer, own_namespace: str, spec: Any, binding: Any, refused: Any, admitted: Any, said: str
) -> None:
    """Both servers check the same requests."""
    async with kube_server.client() as admin:
        rule = PolicyUnderTest(admin, own_namespace)
        async with rule.in_force({"validations": EVERY, **spec}, binding):
            assert await rule.refusal("x", {}, refused) == said
            await rule.takes("other", {}, admitted)


async def test_a_policy_checks_deletions_and_may_ignore_its_failures(
    kube_server: KubeServer, own_namespace: str
) -> None:
    """A request to delete has an old object only. With failurePolicy Ignore, a request is admitted if the policy cannot
    be evaluated."""
    async with kube_server.client() as admin:
        body = {**CONFIG, "metadata": {"name": "kept", "labels": {"keep": "yes"}}}
        await admin.create(CONFIG_MAPS, body, own_namespace)
        rule = PolicyUnderTest(admin, own_namespace)
        keeps = {"expression": "object != null || oldObject.metadata.labels.keep != 'yes'", "message": "kept"}
        ready = {"expression": "object == null || object.metadata.name != 'probe'", "message": "ready"}
        async with rule.in_force({"failurePolicy": "Ignore", "validations": [ready, keeps]}):
            assert await rule.refusal("probe", {}) == "ready"
            error = await until_refused(lambda: admin.delete(CONFIG_MAPS, "kept", own_namespace))
            assert error.message.endswith("denied request: kept")
            await admin.create(CONFIG_MAPS, {**CONFIG, "metadata": {"name": "plain"}}, own_namespace)
            await admin.delete(CONFIG_MAPS, "plain", own_namespace)


async def test_a_policy_about_everything_can_still_be_deleted(kube_server: KubeServer, own_namespace: str) -> None:
    """Requests about policies and bindings themselves are not checked."""
    async with kube_server.client() as admin:
        rule = PolicyUnderTest(admin, own_namespace)
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        group = "admissionregistration.k8s.io"
        here = f"request.resource.group == '{group}' || request.?namespace.orValue('') == '{own_namespace}'"
        concerned = [{"name": "here", "expression": here}]
        spec = {"matchConstraints": {"resourceRules": [everything]}, "matchConditions": concerned, "validations": EVERY}
        async with rule.in_force(spec):
            assert await rule.refusal("x", {}) == "no"
        for _ in range(TRIES):
            with contextlib.suppress(InvalidInput):
                return await rule.takes("x", {})
            await asyncio.sleep(0.1)
        raise AssertionError("still in force")
