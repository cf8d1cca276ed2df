"""`kaji port-forward` and `kaji port`: which ports are forwarded, and which this machine has already."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, FakeWebApi, invoke, view

HERE, ELSEWHERE = "http://127.0.0.1:9", "https://elsewhere:9"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is forwarded: ports, address, and the secret of a notebook."""
    found: list[Any] = []

    def forward_until_end(_api: Any, _forwarder: Any, _view: Any, forwards: Any, address: str, secret: Any) -> None:
        found.append(([(each.local, each.remote) for each in forwards], address, secret))

    monkeypatch.setattr("kajitori.cli.connection.forwarding.forward_until_end", forward_until_end)
    return found


def server(run: dict[str, Any], address: str = "127.0.0.1") -> FakeWebApi:
    api = FakeWebApi([run])
    members = {"items": [{"rank": 0, "phase": "Running", "address": address}]}
    api.answers[f"GET /v1/runs/vision/{run['name']}/members"] = members
    return api


def forward(api: FakeWebApi, url: str, *arguments: str) -> Any:
    environment = {"KAJI_SERVER": url, "KAJI_TOKEN": TOKEN, "KAJI_NAMESPACE": "vision", "KAJI_INSECURE_HTTP": "1"}
    return invoke(api, "port-forward", *arguments, environment=environment, url=url)


@pytest.mark.parametrize(("url", "expected"), [(HERE, (0, 8888)), (ELSEWHERE, (8888, 8888))])
@pytest.mark.parametrize("ports", [(), ("8888",)])
def test_the_port_of_a_notebook_is_known(
    asked: list[Any], ports: tuple[str, ...], url: str, expected: tuple[int, int]
) -> None:
    """Where the notebook shares the network of this machine, it has the port itself, and the link gets another one."""
    api = server(view("notebook-ada", spec={"type": "notebook"}))
    told = {"port": 8888, "path": "/proxy/vision/notebook-ada/8888", "token": "s3cret"}
    api.answers["GET /v1/runs/vision/notebook-ada/notebook"] = told
    done = forward(api, url, "notebook-ada", *ports)
    assert done.exit_code == 0, done.output
    assert asked == [([expected], "127.0.0.1", told)]


@pytest.mark.parametrize(
    ("url", "address", "ports", "forwarded", "own"),
    [
        (HERE, "127.0.0.1", (), [], [80, 8888]),
        (HERE, "127.0.0.1", ("8888", "9000:80"), [(9000, 80)], [8888]),
        (HERE, "127.0.0.1", (":80",), [(0, 80)], []),
        (HERE, "10.244.0.7", (), [(80, 80), (8888, 8888)], []),
        (ELSEWHERE, "127.0.0.1", (), [(80, 80), (8888, 8888)], []),
    ],
    ids=["all its own", "one its own", "a free port", "a network of its own", "another machine"],
)
def test_a_port_that_a_member_has_on_this_machine_itself_is_told_and_not_forwarded(
    asked: list[Any], url: str, address: str, ports: tuple[str, ...], forwarded: list[Any], own: list[int]
) -> None:
    """`kaji run -p 8888` prints this very command, which failed on a `kaji up`: "Address already in use"."""
    done = forward(server(view("web", spec={"ports": [80, 8888]}), address), url, "web", *ports)
    assert done.exit_code == 0, done.output
    told = [line for line in done.stderr.splitlines() if line.startswith("web listens on this machine itself")]
    assert [int(line.rpartition(":")[2]) for line in told] == own, done.stderr
    assert [found[0] for found in asked] == ([forwarded] if forwarded else [])


def test_the_port_of_a_run_that_waits_is_not_taken_from_its_program(asked: list[Any]) -> None:
    """On this machine, where the program may need it."""
    waits, runs = view("web", "Queued", spec={"ports": [80]}), view("web", spec={"ports": [80]})
    api = server(waits)
    api.queues["GET /v1/runs/vision/web"] = [waits, runs]
    done = forward(api, HERE, "web")
    assert (done.exit_code, asked) == (0, []), done.output
    assert done.stderr.count("web is Queued; waits until it runs") == 1
    api.queues["GET /v1/runs/vision/web"] = [view("web", "Failed", spec={"ports": [80]})]
    ended = forward(api, HERE, "web")
    assert (ended.exit_code, "web is Failed: nothing listens there" in ended.stderr) == (2, True)


def test_a_run_without_ports_has_to_be_told_which(asked: list[Any]) -> None:
    refused = forward(server(view("web")), HERE, "web")
    assert (refused.exit_code, "kaji port-forward web 8888" in refused.stderr, asked) == (2, True, [])


def test_a_port_is_listed_with_the_command_that_reaches_it_from_elsewhere() -> None:
    """A server elsewhere says nothing of this machine."""
    api = server(view("web", spec={"ports": [80]}))
    listed = invoke(api, "port", "web", url=HERE)
    assert (listed.stdout, listed.stderr) == ("80/tcp -> 127.0.0.1:80\n", "")
    assert "kaji port-forward web" in invoke(api, "port", "web").stderr


def test_a_rank_that_the_run_lacks_is_refused_before_a_port_is_taken(asked: list[Any]) -> None:
    """Each connection once failed with that reason, and the forward stayed."""
    done = invoke(FakeWebApi([view("bert", spec={"replicas": 4})]), "port-forward", "--rank", "4", "bert", ":8888")
    assert (done.exit_code, done.stderr) == (2, "kaji: --rank: bert has 4 members\n      ranks are 0 to 3\n")
    assert asked == []
