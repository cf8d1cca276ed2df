"""A member as the SSH server uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kajitori.cli.ssh.member import Member, shell_command
from kajitori.client.members.port_tunnels import PortTunnels
from kajitori.client.target import Target
from kajitori.errors import Unauthenticated

RUN = {"namespace": "vision", "name": "bert"}


async def test_a_token_that_expired_is_renewed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An editor stays connected for longer than a token is valid."""
    used: list[str] = []

    @asynccontextmanager
    async def connected(_: PortTunnels, target: Target, port: int) -> AsyncIterator[str]:
        used.append(target.token)
        if target.token != "new":
            raise Unauthenticated("the token has expired")
        yield f"port {port}"

    monkeypatch.setattr(PortTunnels, "connected", connected)
    monkeypatch.setattr(Target, "renewed", lambda self: replace(self, token="new"))
    target = Target("http://127.0.0.1:1", "old", signed_in=tmp_path)
    member = Member(target, RUN, 3)
    for _ in range(2):
        async with member.connected(80) as stream:
            assert str(stream) == "port 80"
    assert used == ["old", "new", "new"]
    with pytest.raises(Unauthenticated):
        async with Member(replace(target, signed_in=None), RUN, 0).connected(80):
            pass


def test_a_line_is_one_word_for_the_shell_of_the_member() -> None:
    command = shell_command("echo 'a b'; exit 3", {"LR": "3'e", "not a name": "x"})
    assert command[:2] == ["/bin/sh", "-c"]
    assert command[3:] == ["sh", "echo 'a b'; exit 3"]
    assert "export LR='3'\"'\"'e'" in command[2]
    assert "not a name" not in command[2]
    assert len(shell_command(None, {})) == 4
