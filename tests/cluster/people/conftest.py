"""Fixtures of two teams whose users sign in at an OpenID provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, control_plane
from tests.harness.fixtures import real_server_of
from tests.harness.servers.identity_provider import SCOPES, IdentityProvider
from tests.helpers.callers.every_call import EveryCall, serving_a_run
from tests.helpers.callers.two_teams import bind, may_submit, speech_of

from kajitori.api.streams import node_lines
from kajitori.api.telemetry import live
from kajitori.configuration.sign_in import SignIn
from kajitori.kube.resources import NAMESPACES
from kajitori.openid.authentication_config import parse_authentication


@pytest.fixture(autouse=True)
def short_wait_for_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node of these tests has an agent: a server waits 0.2 s for an answer of one, instead of 8 s."""
    monkeypatch.setattr(node_lines, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(live, "PATIENCE_SECONDS", 0.2)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def teamed(
    request: pytest.FixtureRequest, tmp_path: Path, identity_provider: IdentityProvider
) -> AsyncIterator[Cluster]:
    """A cluster with the roles for users. The team vision is bound to its namespace, speech to another one."""
    accepted = parse_authentication(identity_provider.authentication_file.read_bytes())
    async with (
        control_plane(real_server_of(request), tmp_path, accepted) as server,
        Cluster(server, tmp_path).running() as cluster,
    ):
        await bind(cluster)
        yield cluster
        await cluster.client.delete(NAMESPACES, speech_of(cluster))


@pytest.fixture
async def calls(teamed: Cluster, identity_provider: IdentityProvider) -> AsyncIterator[EveryCall]:
    """A run of alice, and bob as the outsider."""
    alice, bob = [await asyncio.to_thread(identity_provider.id_token, user) for user in ("alice", "bob")]
    await may_submit(teamed, alice)
    place = SignIn(identity_provider.issuer, scopes=SCOPES, ca=identity_provider.ca.read_text())
    async with serving_a_run(teamed, owner=alice, outsider=bob, sign_in=place) as calls:
        yield calls
