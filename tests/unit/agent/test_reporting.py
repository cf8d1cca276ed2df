"""Reports of totals to the Web API, and what an agent keeps until it has reported."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.helpers.http_server import http_server
from tests.unit.agent.test_telling import counting, pod

from kajitori.agent.counting import Counting
from kajitori.agent.pods import PodFolder
from kajitori.agent.reporting import Reporting
from kajitori.agent.servers import Servers
from kajitori.agent.state import LedgerFile
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.report import Report, read_report
from kajitori.core.traffic.totals import Count

CLASSES = Classes.of({}, "internet")


class WebApi:
    """Records reports and their tokens; answers with `status`."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Report]] = []
        self.status = 204
        self.heard = threading.Event()


@contextmanager
def web_api() -> Iterator[tuple[WebApi, str]]:
    api = WebApi()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            api.told.append((self.path, self.headers["Authorization"], read_report(body)))
            said = b"" if api.status == 204 else b'{"detail": "no"}'
            self.send_response(api.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
            api.heard.set()

        def log_message(self, format: str, *args: object) -> None: ...

    with http_server(Handler) as url:
        yield api, url


def reporting(counted: Counting, url: str, folder: Path) -> Reporting:
    (folder / "token").write_text("word\n")
    return Reporting(Servers([url], folder / "token"), "gpu/1", counted, lambda: 0.01)


def test_every_report_has_all_totals(tmp_path: Path) -> None:
    """With the present token: kubelets replace it."""
    counted = counting(tmp_path, pod())
    with web_api() as (api, url):
        telling = reporting(counted, url, tmp_path)
        telling.send()
        (tmp_path / "token").write_text("another")
        telling.send()
    assert [told[:2] for told in api.told] == [
        ("/v1/nodes/gpu%2F1/traffic", "Bearer word"),
        ("/v1/nodes/gpu%2F1/traffic", "Bearer another"),
    ]
    first, second = api.told[0][2], api.told[1][2]
    assert first == second
    assert first.life == counted.ledger.life
    assert first.runs[0].totals == first.users["ada"] == first.host == {"internet.out": Count(100, 2)}


def test_a_server_may_be_below_a_path(tmp_path: Path) -> None:
    """As behind a proxy; the same holds for relays."""
    with web_api() as (api, url):
        reporting(counting(tmp_path, pod()), f"{url}/kaji/", tmp_path).send()
    assert [told[0] for told in api.told] == ["/kaji/v1/nodes/gpu%2F1/traffic"]


def test_reports_continue_whatever_the_server_answers(tmp_path: Path) -> None:
    """With a last one at the end if there is news."""
    counted = counting(tmp_path, pod())
    counted.health.read_at = 5.0
    with web_api() as (api, url):
        api.status = 503
        telling = reporting(counted, url, tmp_path)
        telling.start()
        api.heard.wait(30)
        assert counted.health.reported_at == 0.0
        api.status = 204
        while not counted.health.reported_at:
            api.heard.clear()
            api.heard.wait(30)
        telling.stop()
    assert counted.health.reported_at == 5.0


def test_a_refused_report_is_logged(tmp_path: Path) -> None:
    counted = counting(tmp_path)
    with web_api() as (api, url):
        api.status = 403
        with pytest.raises(http.client.HTTPException, match="answered 403: no"):
            reporting(counted, url, tmp_path).send()
    with pytest.raises(OSError, match="refused"):
        reporting(counted, url, tmp_path).send()


def test_an_ended_run_is_dropped_only_after_it_was_reported(tmp_path: Path) -> None:
    """However long no server accepts it; an agent without reports drops it after `keepRuns`."""
    counting(tmp_path, pod())
    now = [1000.0]
    (tmp_path / "pods").mkdir()
    file, source = LedgerFile(tmp_path), PodFolder(tmp_path / "pods")
    counted = Counting([], source, file, lambda: now[0], reports=True)
    counted.round(CLASSES, 60.0)
    assert counted.ledger.runs["r1"].totals
    now[0] = 100_000.0
    counted.round(CLASSES, 60.0)
    counted.health.reported_at = counted.health.read_at
    assert "r1" in counted.ledger.runs
    Counting([], source, file, lambda: now[0], reports=True).round(CLASSES, 60.0)
    assert "r1" in LedgerFile(tmp_path).load().runs, "a new agent does not know that it was told"
    counted.round(CLASSES, 60.0)
    assert counted.ledger.runs == {}
    life = counted.ledger.life
    assert Counting([], source, file).ledger.life == life
