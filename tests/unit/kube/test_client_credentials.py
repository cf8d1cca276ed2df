"""The client's credentials: tokens, token files, and plugins."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.kube.scripted import no, ok, scripted

from kajitori.errors import Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Credentials, ExecPlugin, KubeConfig
from kajitori.kube.connection.retry import NO_RETRY
from kajitori.kube.errors import UnauthorizedError
from kajitori.kube.resources import PODS


def bearer(valid: str) -> Callable[[web.Request], Any]:
    """Answer 401 to all tokens but one."""

    async def answer(request: web.Request) -> web.Response:
        return (
            ok()
            if request.headers.get("Authorization") == f"Bearer {valid}"
            else no(401, "Unauthorized", "Unauthorized")
        )

    return answer


def plugin(folder: Path, script: str, **options: Any) -> ExecPlugin:
    """Create a credential plugin, a shell script that counts its runs in the file `runs`."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\ncd {folder}\necho run >> runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin("client.authentication.k8s.io/v1", str(path), **options)


def runs(folder: Path) -> int:
    """Return how often the plugin ran."""
    return len((folder / "runs").read_text().splitlines())


def credential(token: str, **more: str) -> str:
    """Return a shell command that prints a plugin's answer."""
    status = json.dumps({"token": token, **more})
    return f"""echo '{{"kind": "ExecCredential", "status": {status}}}'"""


async def test_a_token_file_is_read_again_after_401(tmp_path: Path) -> None:
    """The kubelet renews tokens in place; the next request after a 401 carries the new one."""
    file = tmp_path / "token"
    file.write_text("old\n")

    async def renew(request: web.Request) -> web.Response:
        file.write_text("new\n")
        return no(401)

    async with scripted(renew, bearer("new")) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(token_file=file))
        async with KubeClient(config, retry=NO_RETRY) as client:
            await client.get(PODS, "x")
        assert [h["Authorization"] for h in server.headers] == ["Bearer old", "Bearer new"]


async def test_an_expired_fixed_token_is_an_error_with_a_hint() -> None:
    """It cannot be renewed, so there is one request. The message does not contain the token."""
    async with scripted(bearer("other")) as server:
        async with KubeClient(KubeConfig(server=server.url).with_token("s3cret"), retry=NO_RETRY) as client:
            with pytest.raises(UnauthorizedError) as caught:
                await client.get(PODS, "x")
        assert len(server.asked) == 1
    assert "log in" in caught.value.hint
    assert "s3cret" not in f"{caught.value!r} {caught.value.hint}"


async def test_clients_with_different_tokens_share_only_the_connections() -> None:
    """Each request carries its own client's token and user agent only; after one client is closed, the other one works
    on."""
    connections = set()

    async def note(request: web.Request) -> web.Response:
        connections.add(id(request.transport))
        return ok()

    async with scripted(note) as server:
        own = KubeConfig(server=server.url, credentials=Credentials(token="own", impersonate_user="admin"))
        async with KubeClient(own, user_agent="server") as client:
            await client.get(PODS, "x")
            for token in ("ada", "eve"):
                async with client.as_bearer(token, user_agent="users") as other:
                    await other.get(PODS, "x")
            await client.get(PODS, "x")
        said = [(h["Authorization"], h["User-Agent"], h.get("Impersonate-User")) for h in server.headers]
    mine = ("Bearer own", "server", "admin")
    assert said == [mine, ("Bearer ada", "users", None), ("Bearer eve", "users", None), mine]
    assert len(connections) == 1


async def test_a_plugin_runs_once_for_many_requests_and_again_after_401(tmp_path: Path) -> None:
    """Its token is kept; a 401 runs it once more, and a second 401 is final."""
    async with scripted(bearer("first")) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(plugin=plugin(tmp_path, credential("first"))))
        async with KubeClient(config, retry=NO_RETRY) as client:
            await asyncio.gather(*(client.get(PODS, "x") for _ in range(5)))
            assert runs(tmp_path) == 1
            plugin(tmp_path, credential("second"))
            server.answers.append(bearer("second"))
            server.answers.popleft()
            await client.get(PODS, "x")
            assert runs(tmp_path) == 2
            server.answers.append(bearer("third"))
            server.answers.popleft()
            with pytest.raises(UnauthorizedError):
                await client.get(PODS, "x")
            assert runs(tmp_path) == 3


async def test_a_token_about_to_expire_is_renewed_before_it_is_used(tmp_path: Path) -> None:
    """The plugin names the end of its token's validity."""
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    async with scripted(bearer("t")) as server:
        made = plugin(tmp_path, credential("t", expirationTimestamp=soon))
        async with KubeClient(KubeConfig(server=server.url, credentials=Credentials(plugin=made))) as client:
            await client.get(PODS, "x")
            await client.get(PODS, "x")
    assert runs(tmp_path) == 2


async def test_a_plugin_gets_information_about_the_cluster(tmp_path: Path) -> None:
    """KUBERNETES_EXEC_INFO has the version, whether it may ask questions, and on request the server."""
    script = 'printf %s "$KUBERNETES_EXEC_INFO" > info; printf %s "$PROFILE" > profile\n' + credential("t")
    made = plugin(tmp_path, script, provide_cluster_info=True, interactive_mode="Never", env=(("PROFILE", "ml"),))
    async with scripted(ok()) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(plugin=made))
        async with KubeClient(config) as client:
            await client.get(PODS, "x")
        info = json.loads((tmp_path / "info").read_text())
        assert info["apiVersion"] == "client.authentication.k8s.io/v1"
        assert info["spec"] == {"interactive": False, "cluster": {"server": server.url}}
        assert (tmp_path / "profile").read_text() == "ml"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo please log in >&2; exit 3", "exit code 3: please log in"),
        ("echo nonsense", "printed no credentials"),
        ("""echo '{"status": {}}'""", "printed no credentials"),
    ],
)
async def test_the_error_of_a_failed_plugin_has_its_last_line(tmp_path: Path, script: str, said: str) -> None:
    """And its exit code, but not what it printed as an answer."""
    made = plugin(tmp_path, script)
    async with KubeClient(KubeConfig(server="http://127.0.0.1:1", credentials=Credentials(plugin=made))) as client:
        with pytest.raises(Unauthenticated, match=said):
            await client.get(PODS, "x")


async def test_the_error_for_a_missing_plugin_has_its_install_hint() -> None:
    made = ExecPlugin("client.authentication.k8s.io/v1", "/no/such/plugin", install_hint="install it so")
    async with KubeClient(KubeConfig(server="http://127.0.0.1:1", credentials=Credentials(plugin=made))) as client:
        with pytest.raises(Unauthenticated) as caught:
            await client.get(PODS, "x")
    assert caught.value.hint == "install it so"
