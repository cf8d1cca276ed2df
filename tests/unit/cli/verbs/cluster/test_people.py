"""`kaji team` and `kaji token` against a server in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli
from kajitori.client.connection import Request, Response
from kajitori.client.target import Target

TEAMS = [
    {"name": "speech", "namespaces": ["speech"], "groups": ["g"], "leads": [], "viewers": [], "yours": False},
    {"name": "vision", "namespaces": ["v1", "v2"], "groups": ["h"], "leads": ["l"], "viewers": [], "yours": True},
]


class Server:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    def send(self, request: Request) -> Response:
        body = json.loads(request.body) if request.body else None
        self.asked.append((request.method, request.path, body))
        if request.path == "/v1/teams":
            return Response.of(200, {"items": TEAMS})
        if request.path == "/v1/sign-in-links":
            return Response.of(201, {"code": "c0de", "user": "ada", "expiresInSeconds": 120})
        if request.method == "POST":
            made = {"user": "system:serviceaccount:vision:ci", "role": "user", "token": "s3cret"}
            return Response.of(201, made | {"expiresAt": "2026-12-23T00:00:00Z"})
        robot = {"name": "ci", "role": "user", "owner": "oidc:lena", "createdAt": "2026-11-23T00:00:00Z"}
        return Response.of(202 if request.method == "DELETE" else 200, {"items": [robot]})

    def close(self) -> None:
        pass


def run(server: Server, *args: str) -> Result:
    cli = Cli(environment={}, transport=server, target=Target("http://kaji.test", "t", "vision"))
    return CliRunner().invoke(kaji, args, obj=cli, prog_name="kaji")


def test_teams_are_listed_with_a_star_at_one_s_own() -> None:
    lines = [line.split() for line in run(Server(), "team", "ls").stdout.splitlines()]
    assert lines == [
        ["TEAM", "NAMESPACES", "GROUPS", "LEADS"],
        ["speech", "speech", "g"],
        ["vision", "*", "v1,", "v2", "h", "l"],
    ]
    assert run(Server(), "team", "ls", "-o", "name").stdout == "speech\nvision\n"


def test_a_policy_s_teams_are_rendered_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("teams: {vision: {groups: [oidc:vision]}}")
    found = list(yaml.safe_load_all(run(Server(), "team", "render", str(file)).stdout))
    assert [each["kind"] for each in found] == ["Namespace", "RoleBinding"]
    assert run(Server(), "team", "render", str(tmp_path / "nosuch")).exit_code == 2


def test_a_robot_s_token_alone_is_on_stdout() -> None:
    """So that it can be put into a file; who it is for goes to stderr."""
    server = Server()
    done = run(server, "token", "create", "--for", "ci", "--ttl", "7d")
    assert (done.stdout, "s3cret" in done.stderr) == ("s3cret\n", False)
    body = {"name": "ci", "role": "user", "ttl": "7d", "namespace": "vision"}
    assert server.asked == [("POST", "/v1/tokens", body)]
    assert run(server, "token", "ls", "-o", "name").stdout == "ci\n"
    assert run(server, "token", "rm", "ci").stdout == "ci\n"
    assert server.asked[-1][:2] == ("DELETE", "/v1/tokens/ci?namespace=vision")


def test_open_prints_a_link_that_signs_a_browser_in() -> None:
    """For the page, or for that of a run."""
    server = Server()
    answer = run(server, "open", "--print")
    assert answer.stdout == "http://kaji.test/#sign-in=c0de\n"
    assert ("POST", "/v1/sign-in-links", None) in server.asked
