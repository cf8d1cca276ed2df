"""The whole Web API with generated arguments and the tokens of each role."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from tests.harness.servers.identity_provider import PREFIX, IdentityProvider
from tests.helpers.callers.every_call import DIGEST, RUN, EveryCall
from tests.helpers.callers.two_teams import speech_of

from kajitori.cluster.platform.applying import apply, remove
from kajitori.install.parts.objects import RBAC, identity, made
from kajitori.install.parts.roles import OPERATORS, TEAM_VIEWER

EXAMPLES = 2
"""Generated arguments of each operation in the ordinary suite."""


@pytest.mark.parametrize(
    "teamed",
    [
        "embedded",
        pytest.param(
            "real",
            marks=[
                pytest.mark.real,
                pytest.mark.skipif(
                    "not config.getoption('--generated-calls')", reason="takes minutes: run with --generated-calls 100"
                ),
            ],
        ),
    ],
    indirect=True,
)
@pytest.mark.xdist_group("generated-calls")  # takes as long as all other tests with the identity provider
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # schemathesis uses `random`
async def test_no_generated_call_is_answered_with_a_server_error(
    request: pytest.FixtureRequest,
    calls: EveryCall,
    identity_provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every answer has a documented status, content type and body, for callers of all roles and without credentials. No
    error is logged."""
    from tests.helpers.callers.generated_calls import GeneratedCalls

    examples = request.config.getoption("--generated-calls")
    cluster, here = calls.cluster, {"namespace": calls.cluster.namespace}
    operators = _bound_to("ClusterRoleBinding", OPERATORS, f"{PREFIX}operators", "")
    viewers = _bound_to("RoleBinding", TEAM_VIEWER, f"{PREFIX}speech", cluster.namespace)
    for binding in (operators, viewers):
        await apply(cluster.client, binding)
    people = {"viewer": "bob", "user": "alice", "team lead": "lena", "operator": "olga"}
    tokens = {role: await asyncio.to_thread(identity_provider.id_token, user) for role, user in people.items()}
    callers = {role: {"Authorization": f"Bearer {token}"} for role, token in tokens.items()}
    robot = await calls.http.post("/v1/tokens", headers=callers["team lead"], json={"name": "ci", "ttl": "1h"} | here)
    assert robot.status_code == 201, robot.text
    callers |= {"robot": {"Authorization": f"Bearer {robot.json()['token']}"}, "nobody": {}}
    known = {
        "namespace": [cluster.namespace, speech_of(cluster)],
        "name": [RUN, next(iter(cluster.nodes_of(RUN))), "ci"],
        "node": list(cluster.nodes_of(RUN)),
        "digest": [DIGEST],
    }
    generated = GeneratedCalls(calls.url, callers, known)
    began = time.monotonic()
    try:
        await asyncio.to_thread(generated.make, examples or EXAMPLES, same=not examples)
    finally:
        await remove(cluster.client, identity(operators))
    print(f"{generated.sent} calls in {time.monotonic() - began:.1f} s; {generated.answers}")
    assert not generated.faults, "\n".join(generated.faults.values())
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    for role, statuses in generated.answers.items():
        assert 200 in statuses and (401 in statuses) >= (role == "nobody"), (role, statuses)


def _bound_to(kind: str, role: str, group: str, namespace: str) -> dict[str, object]:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group}]
    return made(f"{RBAC}/v1", kind, "generated-calls", namespace, roleRef=reference, subjects=subjects)
