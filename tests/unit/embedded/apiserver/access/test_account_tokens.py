"""Tokens of service accounts: whose they are, and when they end."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from kajitori.embedded.apiserver.access.account_tokens import AccountTokens, ensure_key
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.kube.resources import Resource

NOW = 1_000_000.0


class Accounts:
    """One service account, by its uid; None if it was deleted."""

    def __init__(self) -> None:
        self.uid: str | None = "u1"
        self.more: dict[str, str] = {}
        """Further metadata."""

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        known = self.uid is not None and (namespace, name) == ("vision", "ci")
        return {"metadata": {"name": name, "namespace": namespace, "uid": self.uid, **self.more}} if known else None

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        return ()


def issued(tokens: AccountTokens, **spec: Any) -> str:
    return str(tokens.issue("vision", "ci", {"spec": spec})["status"]["token"])


async def test_a_token_is_its_account_until_that_is_deleted() -> None:
    """An account that is made again under the same name is another one."""
    accounts, now = Accounts(), [NOW]
    tokens = AccountTokens(ECKey.generate_key("P-256"), accounts, lambda: now[0])
    token = issued(tokens, expirationSeconds=600)
    user = await tokens.user_of(token)
    assert user is not None and user.name == "system:serviceaccount:vision:ci"
    assert {"system:serviceaccounts", "system:serviceaccounts:vision", "system:authenticated"} == set(user.groups)
    now[0] = NOW + 600
    assert await tokens.user_of(token) is None
    now[0] = NOW
    accounts.more = {"deletionTimestamp": "2026-11-23T12:00:00Z"}
    assert await tokens.user_of(token) is None
    accounts.more = {}
    for uid in ("u2", None):
        accounts.uid = uid
        assert await tokens.user_of(token) is None
    with pytest.raises(StatusError, match="not found"):
        issued(tokens)


async def test_only_this_server_s_tokens_count() -> None:
    """Not those of another key, nor for another audience, nor any other text."""
    accounts = Accounts()
    ours, others = (AccountTokens(ECKey.generate_key("P-256"), accounts, lambda: NOW) for _ in range(2))
    assert await ours.user_of(issued(others)) is None
    assert await ours.user_of(issued(ours, audiences=["elsewhere"])) is None
    for text in ("", "a.b.c", "secret"):
        assert await ours.user_of(text) is None


@pytest.mark.parametrize("seconds", [1, 599, 1 << 33, "600"])
def test_a_token_lasts_ten_minutes_or_more(seconds: Any) -> None:
    tokens = AccountTokens(ECKey.generate_key("P-256"), Accounts(), lambda: NOW)
    with pytest.raises(StatusError, match="expirationSeconds"):
        issued(tokens, expirationSeconds=seconds)


def test_the_key_is_kept_for_its_owner(tmp_path: Path) -> None:
    first = ensure_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert ensure_key(tmp_path / "key").as_pem() == first.as_pem()
