"""Reports of minutes, and answers to questions, over one connection to a Web API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.helpers.http_server import http_server
from tests.unit.agent.telemetry.test_samples import Clock, Members, group, line, member

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.reporting import MIN_DELAY_SECONDS, TelemetryReporting
from kajitori.agent.telemetry.samples import MemberSamples
from kajitori.core.telemetry.report import Question, encode, hold_seconds, read_answer, read_report


class WebApi:
    """Records requests; each wait for questions gets the next entry of `questions`, else none."""

    def __init__(self) -> None:
        self.questions: list[tuple[Question, ...]] = []
        self.posts: list[tuple[str, bytes]] = []
        self.holds: list[str] = []
        self.connections = 0
        self.status = 204


@contextmanager
def web_api() -> Iterator[tuple[WebApi, str]]:
    api = WebApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            api.connections += 1

        def do_POST(self) -> None:
            api.posts.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self._say(api.status, b"")

        def do_GET(self) -> None:
            api.holds.append(self.path.partition("?")[2])
            self._say(200, encode(api.questions.pop(0) if api.questions else ()))

        def _say(self, status: int, content: bytes) -> None:
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    with http_server(Handler) as url:
        yield api, url


def test_each_minute_is_reported_twice_and_questions_are_answered(tmp_path: Path) -> None:
    """All over one connection. A wait lasts until the next report is due."""
    clock = Clock()
    samples = MemberSamples(Members(member(group(tmp_path))), clock=clock)
    with web_api() as (api, url):
        reporting = TelemetryReporting(Servers([url]), "gpu/1", samples, clock, chance=lambda: 0.0)
        for _ in range(13):  # three minutes
            samples.sample(clock.now)
            clock.now += 15
        clock.now = 1_200_000.0 + 180 + MIN_DELAY_SECONDS
        reporting.report_and_answer()
        api.questions.append((Question("q/1", ("u1",), 1_200_100.0),))
        reporting.report_and_answer()
        clock.now += 60
        reporting.report_and_answer()
        reporting._close()
    paths = [path for path, _ in api.posts]
    assert paths[0] == paths[2] == "/v1/nodes/gpu%2F1/telemetry"
    assert paths[1] == "/v1/nodes/gpu%2F1/telemetry/answers/q%2F1"
    first = 1_200_000 // 60
    minutes = [[each.minute for each in read_report(api.posts[number][1]).minutes] for number in (0, 2)]
    assert minutes == [[first + 1, first + 2], [first + 2]]  # the last minute has no sample yet
    (series,) = read_answer(api.posts[1][1]).members
    assert len(series.at) == 8 * 6
    assert api.holds == ["hold=30", "hold=30", "hold=30"]
    assert api.connections == 1


@pytest.mark.parametrize(
    ("left", "holds"),
    [(60.0, [30, 30]), (59.4, [30, 30]), (47.2, [48]), (119.0, [40, 40, 39]), (0.3, [1]), (-3.0, [1])],
)
def test_waits_until_the_next_report_are_few_and_equal(left: float, holds: list[int]) -> None:
    found: list[int] = []
    while left > 0 or not found:
        found.append(hold_seconds(left))
        left -= found[-1]
    assert found == holds


def test_a_report_that_no_server_took_is_sent_again(tmp_path: Path) -> None:
    clock = Clock()
    samples = MemberSamples(Members(member(group(tmp_path))), clock=clock)
    with web_api() as (api, url):
        reporting = TelemetryReporting(Servers([url]), "gpu-1", samples, clock, chance=lambda: 0.0)
        for _ in range(9):
            samples.sample(clock.now)
            clock.now += 15
        api.status = 503
        with pytest.raises(Exception, match="503"):
            reporting.report_and_answer()
        api.status = 204
        reporting.report_and_answer()
        reporting._close()
    assert api.posts[0] == api.posts[1]


def test_a_new_checkpoint_is_reported_before_its_minute_ends(tmp_path: Path) -> None:
    """A node that is lost would take it along. Once reported, it waits for the reports of minutes."""
    log = tmp_path / "0.log"
    log.write_bytes(line(checkpoint_seconds=4.0, time=1_200_010.0))
    clock = Clock(1_200_015.0)
    samples = MemberSamples(Members(member(group(tmp_path), log=log)), clock=clock)
    with web_api() as (api, url):
        reporting = TelemetryReporting(Servers([url]), "gpu-1", samples, clock, chance=lambda: 0.0)
        reporting._reported = int(clock.now // 60) - 1
        samples.sample(clock.now)
        for _ in range(3):
            reporting.report_and_answer()
        with log.open("ab") as file:
            file.write(line(checkpoint_seconds=2.0, time=1_200_027.0))
        clock.now += 15
        samples.sample(clock.now)
        reporting.report_and_answer()
        reporting._close()
    reports = [read_report(body) for _, body in api.posts]
    assert [len(each.minutes) for each in reports] == [0, 0]
    assert [[saved.until for saved in each.saved] for each in reports] == [
        [1_200_010.0],
        [1_200_010.0, 1_200_027.0],
    ]
