"""`kaji login`, `logout` and `whoami` with a server in memory; tests/cluster signs in at a real provider."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from tests.unit.client.test_target import cluster
from tests.unit.openid.test_flows import id_token

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli
from kajitori.client.connection import Request, Response
from kajitori.configuration import contexts

URL = "https://kaji.example.org"
TOKEN = id_token(sub="robot", exp=int(time.time()) + 3600)


class Server:
    """A Web API that accepts one token."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.namespaces = [{"namespace": "vision", "role": "user"}]

    def send(self, request: Request) -> Response:
        said = request.headers.get("Authorization", "")
        self.asked.append((request.path, said))
        if request.path == "/v1/sign-in":
            assert not said  # no token is sent before the provider is known
            return Response.of(200, {"issuer": "", "namespace": "default"})
        if said != f"Bearer {TOKEN}":
            return Response.of(401, {"title": "Unauthenticated", "detail": "no", "code": "Unauthenticated"})
        who = {"user": "robot", "groups": ["robots"], "namespaces": self.namespaces, "operator": False}
        return Response.of(200, who)

    def close(self) -> None:
        pass


def run(runtime: Path, server: Server, *args: str, stdin: str = "", **environment: str) -> Result:
    cli = Cli(environment=environment, runtime_dir=runtime, transport=server, sleep=lambda _: None)
    return CliRunner().invoke(kaji, args, obj=cli, prog_name="kaji", input=stdin)


def test_a_robot_signs_in_with_its_token(tmp_path: Path) -> None:
    """The token is read from stdin, stored in a private file, and never printed. Later commands use that server."""
    server = Server()
    done = run(tmp_path, server, "login", "kaji.example.org", "--token-stdin", stdin=f"{TOKEN}\n")
    assert done.exit_code == 0 and f"Signed in at {URL} as robot" in done.stderr, done.output
    assert "Runs that name no namespace go to vision, the only one in which you have a role." in done.stderr
    stored = contexts.read(tmp_path / "contexts" / "kaji.example.org.json")
    assert (stored.server, stored.user, stored.token, stored.namespace) == (URL, "robot", TOKEN, "vision")
    shown = run(tmp_path, server, "whoami")
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["User", "Groups", "Roles", "Server", "Token"]
    assert "renewed" not in shown.stdout  # a robot's token is not renewed
    document: dict[str, Any] = json.loads(run(tmp_path, server, "whoami", "-o", "json").stdout)
    assert (document["user"], document["server"]) == ("robot", URL)
    listed = run(tmp_path, server, "context", "ls", "-o", "json").stdout
    assert json.loads(listed)["items"][0]["current"]
    for said in (done.output, shown.output, json.dumps(document), listed):
        assert TOKEN not in said and TOKEN.split(".")[1] not in said
    assert run(tmp_path, server, "logout").stderr == "Signed out: context kaji.example.org.\n"
    assert not list((tmp_path / "contexts").iterdir())
    assert run(tmp_path, server, "logout").exit_code != 0


def test_a_person_with_several_namespaces_chooses_one(tmp_path: Path) -> None:
    """So does one who names a namespace without a role."""
    server = Server()
    several = [*server.namespaces, {"namespace": "speech", "role": "viewer"}]
    for namespaces, words in ((several, ()), (server.namespaces, ("-N", "default"))):
        server.namespaces = namespaces
        done = run(tmp_path, server, "login", URL, "--token-stdin", *words, stdin=TOKEN)
        assert "you have no role in namespace default; yours: vision" in done.stderr
        assert f"to use another: kaji login {URL} -N vision" in done.stderr
        assert contexts.read(tmp_path / "contexts" / "kaji.example.org.json").namespace == "default"


def test_a_token_that_the_cluster_refuses_is_not_stored(tmp_path: Path) -> None:
    done = run(tmp_path, Server(), "login", URL, "--token-stdin", stdin="wrong\n")
    assert done.exit_code != 0 and "does not accept the token" in done.stderr
    assert not (tmp_path / "contexts").exists()


def test_ways_to_sign_in_exclude_each_other(tmp_path: Path) -> None:
    """A server without a provider says what to do; stdin must contain a token."""
    assert "choose one" in run(tmp_path, Server(), "login", URL, "--device", "--token-stdin").stderr
    assert "--token-stdin" in run(tmp_path, Server(), "login", URL).stderr
    assert "stdin holds no token" in run(tmp_path, Server(), "login", URL, "--token-stdin").stderr
    assert "name the server" in run(tmp_path, Server(), "login").stderr
    assert "'not a server' is not the address of a server" in run(tmp_path, Server(), "login", "not a server").stderr


def test_context_use_chooses_among_clusters_and_sign_ins(tmp_path: Path) -> None:
    server = Server()
    cluster(tmp_path / "lab", tmp_path)
    for name in ("one", "two"):
        run(tmp_path, server, "login", URL, "--token-stdin", "--name", name, "-N", "vision", stdin=TOKEN)
    names = run(tmp_path, server, "context", "ls", "-q").stdout.split()
    assert names == ["lab", "one", "two"]
    assert run(tmp_path, server, "context", "show", "-o", "name").stdout == "two\n"
    for name in ("lab", "one"):
        assert run(tmp_path, server, "context", "use", name).stdout == f"{name}\n"
        assert run(tmp_path, server, "context", "show", "-o", "name").stdout == f"{name}\n"
    assert run(tmp_path, server, "whoami", "-o", "name", "--cluster", "two").stdout == "robot\n"
    assert run(tmp_path, server, "whoami", "-o", "name", KAJI_CONTEXT="nosuch").exit_code != 0


def test_an_expired_token_of_a_robot_names_the_command_to_replace_it(tmp_path: Path) -> None:
    server = Server()
    run(tmp_path, server, "login", URL, "--token-stdin", stdin=TOKEN)
    path = tmp_path / "contexts" / "kaji.example.org.json"
    document = json.loads(path.read_text()) | {"expires": 1.0}
    path.write_text(json.dumps(document))
    done = run(tmp_path, server, "whoami")
    assert done.exit_code != 0 and f"kaji login {URL}" in done.stderr
