"""The first step of a member, with servers that answer, fail and hang."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kajitori.core.naming import first_step
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates
from kajitori.member import hosts
from kajitori.member.__main__ import main
from kajitori.member.server import MAX_PAUSE_SECONDS, Server

TICKET = "kaji1.secret.ticket"
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
Answer = Callable[[], web.Response]


class Time:
    """A clock that moves when a test sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


class FakeWebApi:
    """A Web API with prepared answers; the last one repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers.get("Authorization", "")))
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])()


@asynccontextmanager
async def serving(*answers: Answer, certificates: Certificates | None = None) -> AsyncIterator[FakeWebApi]:
    """Serve over http, or over https with certificates."""
    fake = FakeWebApi(*answers)
    tls = None
    if certificates is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificates.server, certificates.server_key)
    app = web.Application()
    app.router.add_get("/{path:.*}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    fake.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def all_known() -> web.Response:
    body = gzip.compress(json.dumps({"addresses": ADDRESSES}).encode())
    return web.Response(body=body, headers={"Content-Encoding": "gzip"}, content_type="application/json")


def not_yet() -> web.Response:
    missing = ["bert-2-1", "bert-2-2"]
    return web.json_response({"known": 1, "total": 4, "missing": missing}, status=202)


def busy() -> web.Response:
    return web.json_response({"code": "Unavailable", "detail": "busy"}, status=503, headers={"Retry-After": "2"})


def over() -> web.Response:
    return web.json_response({"code": "AttemptOver", "detail": "attempt 2 of run bert is over"}, status=403)


def environment(folder: Path, url: str, **more: str) -> dict[str, str]:
    return {
        "KAJI_RUN": "bert",
        "KAJI_ATTEMPT": "2",
        "KAJI_RANK": "1",
        "KAJI_WORLD_SIZE": "3",
        first_step.FOLDER_ENV: str(folder),
        first_step.SERVER_ENV: url,
        first_step.TICKET_ENV: TICKET,
        first_step.SLOTS_ENV: "8",
        first_step.DEADLINE_ENV: "90",
        **more,
    }


def modes(folder: Path) -> dict[str, int]:
    """Return the files of a folder with their modes."""
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


async def step(folder: Path, fake: FakeWebApi, **more: str) -> tuple[int, Time]:
    """Run the first step on fake time; return its exit code and its waits."""
    time = Time()
    server = Server(fake.url, TICKET, clock=time, sleep=time.sleep)
    return await asyncio.to_thread(main, environment(folder, fake.url, **more), server), time


async def test_a_given_ca_is_the_only_trusted_one(tmp_path: Path) -> None:
    """It comes with the Pod, not with the image."""
    ours, others = (ensure_certificates(tmp_path / name) for name in ("ours", "others"))
    async with serving(all_known, certificates=ours) as fake:
        for folder, pem, code in (("yes", ours.ca, 0), ("no", others.ca, first_step.NO_SERVER), ("none", None, 20)):
            (tmp_path / folder).mkdir()
            time = Time()
            server = Server(
                fake.url, TICKET, ca=pem.read_text() if pem is not None else "", clock=time, sleep=time.sleep
            )
            said = environment(tmp_path / folder, fake.url)
            assert await asyncio.to_thread(main, said, server) == code
            assert bool(list((tmp_path / folder).iterdir())) == (code == 0)
    assert {ticket for _, ticket in fake.asked} == {f"Bearer {TICKET}"} and len(fake.asked) == 1


async def test_the_ca_comes_from_the_environment(tmp_path: Path) -> None:
    certificates = ensure_certificates(tmp_path / "pki")
    (tmp_path / "out").mkdir()
    async with serving(all_known, certificates=certificates) as fake:
        said = environment(tmp_path / "out", fake.url, **{first_step.CA_ENV: certificates.ca.read_text()})
        assert await asyncio.to_thread(main, said) == 0


async def test_all_members_are_in_the_files(tmp_path: Path) -> None:
    """In rank order, readable by everyone, and nothing else is left in the folder."""
    async with serving(all_known) as fake:
        code, time = await step(tmp_path, fake)
    assert (code, time.naps) == (0, [])
    assert fake.asked == [("/v1/members/hosts", f"Bearer {TICKET}")]
    assert (tmp_path / "hosts").read_text() == ("bert-2-0.bert slots=8\nbert-2-1.bert slots=8\nbert-2-2.bert slots=8\n")
    lines = (tmp_path / "etc-hosts").read_text().splitlines()
    assert "10.0.0.3\tbert-2-2.bert\tbert-2-2" in lines
    assert any("localhost" in line for line in lines)
    assert modes(tmp_path) == {"etc-hosts": 0o644, "hosts": 0o644}


async def test_the_hostfile_has_addresses_if_names_do_not_resolve(tmp_path: Path) -> None:
    async with serving(all_known) as fake:
        await step(tmp_path, fake, **{first_step.BY_ADDRESS_ENV: "1"})
    assert (tmp_path / "hosts").read_text().splitlines()[0] == "10.0.0.1 slots=8"


async def test_members_of_an_mpi_run_get_keys_and_scripts(tmp_path: Path) -> None:
    """With a hostfile for either kind of mpirun, which has each machine once with all its slots."""
    names = ("clientKey", "clientPublicKey", "hostKey", "hostPublicKey")
    keys = lambda: web.json_response({name: f"a {name}" for name in names})  # noqa: E731
    shared = lambda: web.json_response({"addresses": ["10.0.0.1", "10.0.0.2", "10.0.0.2"]})  # noqa: E731
    async with serving(shared, busy, keys) as fake:
        code, _ = await step(tmp_path, fake, **{first_step.MPI_PORT_ENV: "20001"})
    assert code == 0
    assert [path for path, _ in fake.asked][1:] == ["/v1/members/ssh"] * 2
    assert (tmp_path / "hosts").read_text() == "bert-2-0.bert slots=8\nbert-2-1.bert slots=16\n"
    assert (tmp_path / "hosts-mpich").read_text() == f"bert-2-0.bert:8\n{os.uname().nodename}:16\n", "it is member 1"
    mpi = tmp_path / "mpi"
    assert (mpi / "known_hosts").read_text() == "kajitori a hostPublicKey\n"
    allowed = 'from="10.0.0.1,10.0.0.2",no-pty,no-port-forwarding a clientPublicKey\n'
    assert (mpi / "authorized_keys").read_text() == allowed
    assert (mpi / "sshds").read_text() == "bert-2-1.bert\n"
    assert (mpi / "serves").exists(), "rank 1 is the first at its address"
    assert {"launch", "session", "ssh", "check"} <= modes(mpi).keys()


async def test_a_notebook_gets_its_token_in_a_file(tmp_path: Path) -> None:
    """On a node that other people use as well, only the program's user may read the file."""
    answer = lambda: web.json_response({"token": "secret"})  # noqa: E731
    alone = {first_step.NOTEBOOK_ENV: "1", first_step.ALONE_ENV: "1"}
    owner = {first_step.PRIVATE_ENV: "1", first_step.OWNER_ENV: f"{os.getuid()}:{os.getgid()}"}
    for more, mode in (({}, 0o644), (owner, 0o600)):
        async with serving(answer) as fake:
            assert (await step(tmp_path, fake, **alone, **more))[0] == 0
        assert fake.asked == [("/v1/members/notebook", f"Bearer {TICKET}")]
        assert modes(tmp_path) == {"notebook-token": mode}
        assert (tmp_path / "notebook-token").read_text() == "secret", "JupyterLab takes the file as it is"


async def test_requests_are_retried_until_all_members_are_known(tmp_path: Path) -> None:
    """A server that is away, busy or broken only costs time; pauses grow up to a limit."""
    nonsense = lambda: web.Response(text="<html>")  # noqa: E731
    too_few = lambda: web.json_response({"addresses": ADDRESSES[:2]})  # noqa: E731
    async with serving(busy, nonsense, not_yet, too_few, not_yet, all_known) as fake:
        code, time = await step(tmp_path, fake)
    assert (code, len(fake.asked)) == (0, 6)
    assert time.naps[0] == 2.0, "the server said when to come again"
    assert all(0 < nap <= MAX_PAUSE_SECONDS for nap in time.naps)


async def test_a_failed_connection_is_retried(tmp_path: Path) -> None:
    def hangs_up() -> web.Response:
        raise ConnectionResetError

    async with serving(hangs_up, all_known) as fake:
        code, time = await step(tmp_path, fake)
    assert (code, len(time.naps)) == (0, 1)


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (busy, first_step.NO_SERVER, "within 90 s: HTTP 503: Unavailable: busy"),
        (not_yet, first_step.NO_PEERS, "after 90 s 3 of 4 members have no address: bert-2-1, bert-2-2 and 1 more"),
        (over, first_step.REFUSED, "refused: AttemptOver: attempt 2 of run bert is over"),
        (lambda: web.Response(status=404, text="no such page"), first_step.REFUSED, "refused: no such page"),
    ],
)
async def test_each_failure_has_its_own_exit_code_and_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Answer, code: int, said: str
) -> None:
    """Then no file is written, and the ticket appears nowhere."""
    async with serving(answer) as fake:
        failed, time = await step(tmp_path, fake)
    told = capsys.readouterr().err
    assert (failed, said in told, TICKET in told) == (code, True, False), told
    assert time.now < 90
    assert not modes(tmp_path)


async def test_an_unreachable_server_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the last line, with its address."""
    async with serving(all_known) as fake:
        pass
    code, time = await step(tmp_path, fake)
    assert code == first_step.NO_SERVER and time.now > 60
    assert fake.url in capsys.readouterr().err


async def test_an_unwritable_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(all_known) as fake:
        code, _ = await step(tmp_path / "missing", fake)
    assert code == 1
    assert "missing" in capsys.readouterr().err


def test_etc_hosts_keeps_its_known_lines() -> None:
    """A member on its node's network finds itself by the node's name."""
    known = "127.0.0.1 localhost # me\n10.7.0.1 registry\n"
    text = hosts.etc_hosts(known, "bert", 1, ["10.0.0.1", "::2"], 1, "node-7")
    assert text == (
        "127.0.0.1 localhost # me\n10.7.0.1 registry\n# members of run bert, attempt 1\n"
        "10.0.0.1\tbert-1-0.bert\tbert-1-0\n::2\tbert-1-1.bert\tbert-1-1\n::2\tnode-7\n"
    )
    assert "me\n::2" not in hosts.etc_hosts(known, "bert", 1, ["10.0.0.1"], 0, "bert-1-0")
    assert hosts.etc_hosts("10.0.0.9 node-7\n", "bert", 1, ["10.0.0.1"], 0, "node-7").count("node-7") == 1


def test_a_container_without_etc_hosts_knows_localhost(tmp_path: Path) -> None:
    assert "localhost" in hosts.read_known(str(tmp_path / "none"))


def test_the_first_step_imports_few_modules() -> None:
    """It starts in every member of every gang."""
    program = "import sys, kajitori.member.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("kajitori.")}
    assert ours == {
        "kajitori.core",
        "kajitori.core.naming",
        "kajitori.core.naming.first_step",
        *(f"kajitori.member{name}" for name in ("", ".__main__", ".hosts", ".server")),
    }
    heavy: set[Any] = {"asyncio", "dataclasses", "logging", "msgspec", "numpy", "pydantic", "subprocess", "typing"}
    assert not heavy & loaded
