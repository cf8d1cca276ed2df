"""The identity and validity of an agent's token, and how often the API server reviews it; on a fake clock."""

from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest
from tests.unit.cluster.platform.fake_tokens import Agents, settle

from kajitori.cluster.platform.agents import REVIEW_SECONDS, UNANSWERED_SECONDS
from kajitori.errors import Forbidden, Unauthenticated, Unavailable


async def test_a_token_is_valid_until_it_expires() -> None:
    """A late review does not extend it, neither for open streams nor for new ones."""
    agents = Agents()
    token = agents.token(life=600)
    await agents.tokens.require(token, "n1")
    agents.clock += 599
    assert agents.tokens.still_good(token)
    await agents.tokens.require(token, "n1")
    assert len(agents.asked) == 1
    agents.clock += 1
    assert not agents.tokens.still_good(token)
    with pytest.raises(Unauthenticated):
        await agents.tokens.require(token, "n1")


async def test_tokens_are_reviewed_again_and_a_refusal_ends_their_streams() -> None:
    """The API server may refuse a token before it expires, for example because its account is gone."""
    agents = Agents()
    token = agents.token()
    await agents.tokens.require(token, "n1")
    agents.revoked.add(token)
    agents.clock += REVIEW_SECONDS - 1
    assert agents.tokens.still_good(token)
    await settle()
    assert len(agents.asked) == 1
    agents.clock += 1
    assert agents.tokens.still_good(token) and agents.tokens.still_good(token), "nobody waits for the answer"
    await settle()
    assert len(agents.asked) == 2, "asked once, however often it was looked at"
    assert not agents.tokens.still_good(token)
    with pytest.raises(Unauthenticated):
        await agents.tokens.require(token, "n1")


async def test_the_streams_of_a_deleted_pods_token_end() -> None:
    """They also end if a Pod with the same name was created."""
    agents = Agents()
    token = agents.token()
    await agents.tokens.require(token, "n1")
    pod = agents.pods.pop(("kajitori", "agent-n1"))
    assert not agents.tokens.still_good(token)
    other = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="another"))
    agents.pods["kajitori", "agent-n1"] = other
    assert not agents.tokens.still_good(token)
    with pytest.raises(Forbidden, match="not on node n1"):
        await agents.tokens.require(token, "n1")
    agents.pods["kajitori", "agent-n1"] = pod
    assert agents.tokens.still_good(token)


async def test_without_an_api_server_a_review_counts_until_the_token_expires() -> None:
    """The review is retried at intervals, not at every check."""
    agents = Agents()
    token = agents.token(life=3_600)
    await agents.tokens.require(token, "n1")
    agents.trouble = Unavailable("away")
    while agents.clock < 5_000 + 3_599:
        assert agents.tokens.still_good(token)
        await settle()
        await agents.tokens.require(token, "n1")
        agents.clock += 1
    assert len(agents.asked) == 1 + (3_599 - REVIEW_SECONDS) // UNANSWERED_SECONDS + 1
    agents.clock += 1
    assert not agents.tokens.still_good(token)
    with pytest.raises(Unavailable):
        await agents.tokens.require(token, "n1")
    with pytest.raises(Unavailable):
        await agents.tokens.require(agents.token("n2"), "n2")


async def test_a_token_without_a_review_opens_no_stream() -> None:
    agents = Agents()
    assert not agents.tokens.still_good(agents.token())
    assert await agents.tokens.read("junk") is None
    assert not agents.tokens.still_good("junk")


@pytest.mark.parametrize(
    "token",
    [
        "opaque",
        "a.b.c",
        "a.!!.c",
        "a." + base64.urlsafe_b64encode(b"[1]").decode() + ".c",
        "a." + base64.urlsafe_b64encode(b'{"exp": "soon"}').decode() + ".c",
    ],
)
async def test_a_token_without_an_expiry_is_reviewed_at_intervals(token: str) -> None:
    """Not every API server's tokens are JSON Web Tokens."""
    agents = Agents()
    agents.token("n1")
    agents.opaque[token] = "n1"
    await agents.tokens.require(token, "n1")
    agents.clock += 100 * REVIEW_SECONDS
    assert agents.tokens.still_good(token)
    await settle()
    assert len(agents.asked) == 2
    del agents.opaque[token]
    agents.clock += REVIEW_SECONDS
    assert agents.tokens.still_good(token)
    await settle()
    assert not agents.tokens.still_good(token)


async def test_reviews_for_a_large_cluster_are_few_and_spread_over_time() -> None:
    """500 agents connect at the same time and are checked every ten seconds for an hour: each is reviewed at most three
    more times, and at most a tenth of them within one minute."""
    state = [1]

    def chance() -> float:
        state[0] = state[0] * 48_271 % 2_147_483_647
        return state[0] / 2_147_483_647

    agents = Agents(chance)
    tokens = [agents.token(f"n{number}", life=3_700) for number in range(500)]
    await asyncio.gather(*(agents.tokens.require(token, f"n{number}") for number, token in enumerate(tokens)))
    assert len(agents.asked) == 500
    most = 0
    for _ in range(60):
        before = len(agents.asked)
        for _ in range(6):
            agents.clock += 10
            assert all(agents.tokens.still_good(token) for token in tokens)
            await settle()
        most = max(most, len(agents.asked) - before)
    assert 500 < len(agents.asked) <= 500 * 4
    assert most <= 50
