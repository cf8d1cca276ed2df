"""Every call of the Web API by somebody without rights anywhere, and by nobody, on a real API server.

test_two_teams.py makes the same calls as somebody with rights in another team.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.harness.cluster import Cluster
from tests.harness.real_server import RealServer
from tests.helpers.every_call import RUN, TO_ANYBODY, EveryCall, serving_a_run

from kajitori.api.app import openapi_document, operations

pytestmark = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)


@pytest.fixture
async def calls(real_control_plane: RealServer, cluster: Cluster) -> AsyncIterator[EveryCall]:
    admin, ada = cluster.server.config.credentials.token, real_control_plane.tokens["ada"]
    async with serving_a_run(cluster, owner=admin, outsider=ada) as calls:
        yield calls


async def test_no_call_opens_a_namespace_to_who_has_no_rights_there(calls: EveryCall) -> None:
    """Nor says whether a run of some name is there. Afterwards all is as it was."""
    await calls.are_refused_to_the_outsider()


@pytest.mark.parametrize("token", ["", "Bearer nobody-knows-this"])
async def test_no_call_is_answered_without_credentials(calls: EveryCall, token: str) -> None:
    """Also of routes that the OpenAPI document does not tell of."""
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


async def test_no_program_is_run_in_a_member_of_others(calls: EveryCall) -> None:
    """Nor is a WebSocket opened."""
    for headers, status in ((calls.outsider, 403), ({}, 401), ({"Authorization": "Bearer nobody"}, 401)):
        await calls.run_no_program_for(headers, status)
