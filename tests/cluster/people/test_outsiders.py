"""Every call of the Web API by a user without any rights, and without credentials, on a real API server.

test_two_teams.py makes the same calls as a user with rights in another team.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.harness.cluster import Cluster
from tests.harness.servers.real_server import RealServer
from tests.helpers.callers.every_call import RUN, TO_ANYBODY, EveryCall, serving_a_run

from kajitori.api.app import openapi_document, operations

pytestmark = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)


@pytest.fixture
async def calls(real_control_plane: RealServer, cluster: Cluster) -> AsyncIterator[EveryCall]:
    admin, ada = cluster.server.config.credentials.token, real_control_plane.tokens["ada"]
    async with serving_a_run(cluster, owner=admin, outsider=ada) as calls:
        yield calls


async def test_no_call_shows_a_namespace_to_a_user_without_rights_in_it(calls: EveryCall) -> None:
    """No answer reveals whether a run of a given name exists. Nothing is changed."""
    await calls.are_refused_to_the_outsider()


@pytest.mark.parametrize("token", ["", "Bearer nobody-knows-this"])
async def test_no_call_is_answered_without_credentials(calls: EveryCall, token: str) -> None:
    """Only the calls that need no credentials are answered."""
    headers = {"Authorization": token} if token else {}
    for path, method, _ in operations(openapi_document()):
        if path not in TO_ANYBODY:
            answer = await calls.call(method, path, headers)
            assert answer.status_code == 401, f"{method} {path}: {answer.text}"
            assert calls.shows_nothing(answer)
    for path in TO_ANYBODY:
        answer = await calls.http.get(path, headers=headers)
        assert answer.status_code == 200
        assert calls.shows_nothing(answer) and RUN not in answer.text


async def test_no_program_is_run_in_members_of_other_users(calls: EveryCall) -> None:
    """The WebSocket is not opened."""
    for headers, status in ((calls.outsider, 403), ({}, 401), ({"Authorization": "Bearer nobody"}, 401)):
        await calls.run_no_program_for(headers, status)
