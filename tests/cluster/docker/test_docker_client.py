"""Docker's own client through `kaji docker`: real processes on this machine as a node."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio
from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import PATIENCE_SECONDS, until
from tests.helpers.network.relay import Relay

from kajitori.api.serving.server import ApiServer
from kajitori.client.target import Target
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.configuration.policy_file import PolicyFile
from kajitori.docker.engine import Engine
from kajitori.docker.events import RunWatcher
from kajitori.docker.platform import Platform
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates
from kajitori.entrypoints.docker import DockerOptions, served
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("docker") is None, reason="Docker's client is not installed"),
]

HERE = ("-m", "64m", "--cpus", "0.1", *(("-u", "65534") if os.geteuid() == 0 else ()))


class Docker:
    """Docker's command line, on one bridge."""

    def __init__(self, engine: Engine, socket: Path, relay: Relay, *, splits_streams: bool) -> None:
        self.engine = engine
        self.socket = socket
        self.relay = relay
        """Through which the bridge reaches its server."""
        self.splits_streams = splits_streams
        """Whether logs tell stdout and stderr apart. An API server does it with PodLogsQuerySplitStreams, off by
        default in Kubernetes 1.36."""
        self._environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{socket}", "HOME": str(socket.parent)}

    async def __call__(self, *words: str, stdin: bytes = b"", code: int = 0) -> str:
        """Return what a command prints on stdout, behind a `|` also what it prints on stderr.

        On a busy machine `docker run` tells that a run is still starting; that is left out.
        """
        process = await self.begin(*words)
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, errors = await process.communicate(stdin)
        assert process.returncode == code, (words, process.returncode, out, errors)
        told = "".join(line for line in errors.decode().splitlines(keepends=True) if " is Starting: " not in line)
        return out.decode() + (f"|{told}" if told else "")

    async def begin(self, *words: str) -> asyncio.subprocess.Process:
        """Start a command."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            "docker", *words, env=self._environment, cwd=self.socket.parent, stdin=pipe, stdout=pipe, stderr=pipe
        )

    @asynccontextmanager
    async def at_terminal(self, *words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Terminal]]:
        """Start a command at a terminal of its own."""
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "r+b", 0) as keys, os.fdopen(theirs, "r+b", 0) as its:
            process = await asyncio.create_subprocess_exec(
                "docker", *words, env=self._environment, cwd=self.socket.parent, stdin=its, stdout=its, stderr=its
            )
            try:
                yield process, Terminal(keys)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    @asynccontextmanager
    async def over_tls(self, certificates: Certificates) -> AsyncIterator[tuple[str, ...]]:
        """Serve the same containers over TLS too, and yield the options for the client's address."""
        options = DockerOptions(
            socket=self.socket,
            tcp="127.0.0.1:0",
            certificate=certificates.server,
            key=certificates.server_key,
            client_authority=certificates.ca,
        )
        async with served(self.engine, options) as host:
            yield ("-H", host, "--tls", "--tlsverify", "--tlscacert", str(certificates.ca))

    async def answer(self, method: str, path: str) -> Any:
        """Return the document with which the bridge answers a request."""
        connector = aiohttp.UnixConnector(str(self.socket))
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            aiohttp.ClientSession("http://docker", connector=connector) as session,
            session.request(method, path) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def tells(self, text: str, *words: str) -> bool:
        """Whether a command prints this text."""
        return text in await self(*words)

    async def shows(self, id: str, status: str) -> None:
        """Wait until `docker ps` shows this text as the status of a container."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while status not in await self("ps", "--format", "{{.Status}}", "--filter", f"id={id}"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


class Terminal:
    """The user's side of a terminal."""

    def __init__(self, keys: BinaryIO) -> None:
        self._keys = keys
        self._shown = b""
        os.set_blocking(keys.fileno(), False)

    def type(self, text: str) -> None:
        self._keys.write(text.encode())

    async def shows(self, text: str) -> str:
        """Wait until this is shown, and return all that was shown."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while text.encode() not in self._shown:
                self._shown += self._keys.read(65536) or b""
                await asyncio.sleep(0.01)
        return self._shown.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def docker(local_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Docker]:
    """A bridge to a Web API on the local cluster."""
    config = KubeConfig.from_file(local_cluster.kubeconfig)
    socket = tmp_path_factory.mktemp("docker") / "run" / "docker.sock"
    async with KubeClient(config) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        dependencies = ApiDependencies(client=client, mirror=mirror, policy=PolicyFile(None), namespace="default")
        async with ApiServer(web_app(dependencies)) as server:
            url = urlsplit(server.url)
            with Relay(lambda: (str(url.hostname), int(url.port or 0))).running() as relay:
                async with Platform(Target(relay.url, config.credentials.token, "default")) as platform:
                    engine = Engine(platform)
                    watching = asyncio.create_task(RunWatcher(platform, engine.events).run())
                    async with served(engine, DockerOptions(socket=socket)):
                        yield Docker(engine, socket, relay, splits_streams=not local_cluster.is_real)
                    watching.cancel()
                    await engine.close()


async def test_only_its_user_can_open_the_socket(docker: Docker) -> None:
    assert stat.S_IMODE(docker.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(docker.socket.parent.stat().st_mode) == 0o700


async def test_a_container_runs_and_its_end_is_told(docker: Docker) -> None:
    """Output streams come apart, the exit code is the program's own, and --rm leaves nothing. With a terminal, a
    program that ended before the bridge was connected with it once showed nothing."""
    words = ("sh", "-c", "cat; echo err >&2; exit 3")
    printed = await docker("run", "--rm", "-i", "--name", "d-once", *HERE, "busybox", *words, stdin=b"in\n", code=3)
    assert printed == ("in\n|err\n" if docker.splits_streams else "in\nerr\n")
    assert "No such container: d-once" in await docker("rm", "d-once", code=1)
    assert (await docker("run", "--rm", "-t", *HERE, "busybox", "echo", "short")).endswith("short\r\n")


async def test_a_program_that_cannot_start_and_one_that_is_ended_are_told(docker: Docker) -> None:
    """Both were silent once, but for the exit code."""
    told = await docker("run", "--rm", *HERE, "busybox", "/no-such-program", code=127)
    assert "failed to start" in told and "/no-such-program" in told
    limited = ("run", "--rm", "--label", "kaji.time-limit=1s", *HERE, "busybox", "sleep", "1000")
    assert "is Failed: ran longer than its time limit" in await docker(*limited, code=1)


async def test_over_tls_a_client_may_end_its_half_and_read_on(docker: Docker, tmp_path: Path) -> None:
    """`docker run` without -i does it at once, and -i at the end of its input. Clients without a certificate are
    refused."""
    certificates = ensure_certificates(tmp_path)
    words = ("run", "--rm", *HERE, "busybox", "sh", "-c", "cat; sleep 0.2; echo end; exit 3")
    async with docker.over_tls(certificates) as server:
        client = (*server, "--tlscert", str(certificates.client), "--tlskey", str(certificates.client_key))
        assert await docker(*client, *words, code=3) == "end\n"
        given = b"x" * 1_000_000 + b"\n"
        taken = (words[0], "-i", *words[1:-1], "wc -c; echo end")
        assert await docker(*client, *taken, stdin=given) == f"{len(given)}\nend\n"
        assert "certificate required" in await docker(*server, "ps", code=1)


async def test_anonymous_volumes_and_tmpfs_need_empty_folders_of_policy(docker: Docker) -> None:
    """The policy of this cluster offers none, and the answer says what to ask for."""
    told = await docker("run", "--rm", "-v", "/d-volume", "--tmpfs", "/d-tmpfs", *HERE, "busybox", code=125)
    assert "policy offers none" in told and "--tmpfs: policy offers no empty folder in memory" in told


@pytest.mark.conformance
async def test_a_command_at_a_terminal_goes_on_after_the_connection_to_the_server_broke(docker: Docker) -> None:
    """`docker exec -it` once ended. No number is lost or comes twice, and the shell is the same one."""
    await docker("run", "-d", "--name", "d-exec", *HERE, "busybox", "sleep", "1000")
    count = "read a; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; sleep 0.01; done; read b; echo $a $b.; exit 4"
    async with docker.at_terminal("exec", "-it", "d-exec", "sh", "-c", count) as (process, terminal):
        terminal.type("first\r")
        await terminal.shows("\r\n30\r\n")
        docker.relay.break_all()
        await terminal.shows("\r\n150\r\n")
        docker.relay.break_all()
        await terminal.shows("\r\n300\r\n")
        terminal.type("second\r")
        shown = await terminal.shows("first second.\r\n")
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 4
    assert [int(line) for line in shown.split("\r\n") if line.isdecimal()] == list(range(1, 301))
    await docker("rm", "-f", "d-exec")


@pytest.mark.conformance
async def test_the_life_of_a_container(docker: Docker, tmp_path: Path) -> None:
    """run -d, ps, inspect, logs, exec, cp, stats, stop, wait, start, restart, kill, rm."""
    script = "trap 'exit 5' TERM; echo out; echo err >&2; while :; do sleep 0.1; done"
    options = ("-d", "--name", "d_life.1", "--label", "com.example.path=/x", "-e", "A=b", *HERE)
    sick = f"/tmp/d-life-{os.getpid()}"  # which the container's user may write
    options += ("--health-cmd", f"cat {sick} 2>/dev/null; test ! -e {sick}")
    options += ("--health-interval", "1s", "--health-retries", "1")
    id = (await docker("run", *options, "busybox", "sh", "-c", script)).strip()
    await docker.shows(id, "(healthy)")
    await docker("exec", id, "sh", "-c", f"echo it is sick >{sick}")
    await docker.shows(id, "(unhealthy)")
    assert await docker("ps", "-q", "--no-trunc", "--filter", "label=com.example.path=/x") == f"{id}\n"
    form = '{{.Name}} {{.Config.Env}} {{.HostConfig.Memory}} {{index .Config.Labels "com.example.path"}}'
    assert await docker("inspect", "--format", form, id[:8]) == "/d_life.1 [A=b] 67108864 /x\n"
    assert await docker("logs", id) == ("out\n|err\n" if docker.splits_streams else "out\nerr\n")
    assert await docker("exec", "-i", id, "sh", "-c", "cat; echo $A; exit 4", stdin=b"x\n", code=4) == "x\nb\n"
    assert "trap 'exit 5'" in await docker("top", id)

    (tmp_path / "file").write_text("content")
    target = f"/tmp/{id[:12]}"
    await docker("cp", str(tmp_path / "file"), f"{id}:{target}")
    await docker("cp", f"{id}:{target}", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "content"
    await docker("exec", id, "rm", target)
    output = "{{range .State.Health.Log}}{{.Output}}{{end}}"
    await until(lambda: docker.tells("it is sick", "inspect", "--format", output, id), "the log has the check")
    await docker("exec", id, "rm", sick)

    await docker("stop", id)
    assert await docker("wait", id) == "5\n"
    assert "Exited (5)" in await docker("ps", "-a", "--format", "{{.Status}}", "--filter", f"id={id}")
    await docker("start", id)
    ending = asyncio.create_task(docker("wait", id))
    await docker.shows(id, "Up")
    await docker("restart", id)
    assert await ending == "5\n"
    await docker("kill", id)
    waiting = asyncio.create_task(docker.answer("POST", f"/containers/{id}/wait?condition=removed"))
    assert await docker("rm", id) == f"{id}\n"
    assert (await waiting)["StatusCode"] == 137

    async def told_to_the_end() -> list[str]:
        events = await docker(
            "events", "--since", "10m", "--until", f"{time.time():.3f}", "--filter", f"container={id}"
        )
        told = [line.split()[2] for line in events.splitlines()]
        return told if told[-1:] == ["destroy"] else []

    told = await until(told_to_the_end, "the end of the run is told")  # runs are looked at once a second
    assert told.count("health_status:") >= 2
    told = [action for action in told if action not in ("health_status:", "exec_create:", "exec_start:", "exec_die")]
    assert told[:2] == ["create", "start"] and told[-2:] == ["die", "destroy"]


async def test_a_container_waits_for_nodes_and_says_so(docker: Docker) -> None:
    """`create` starts nothing, and `start -a` tells why the run is queued, until somebody stops it. A container that
    was not started yet keeps its id if it is renamed, as Docker Compose does with each one that it makes again."""
    gang = (await docker("run", "-d", "--gpus", "8", "--label", "kaji.replicas=2", "busybox")).strip()
    await docker.shows(gang, "Up")
    id = (await docker("create", "--name", "d_early", "--gpus", "8", "busybox")).strip()
    await docker("rename", "d_early", "d-large")
    assert await docker("inspect", "--format", "{{.Id}} {{.Name}}", "d-large") == f"{id} /d-large\n"
    assert await docker("ps", "-a", "--format", "{{.Status}}", "--filter", f"id={id}") == "Created\n"
    assert (await docker.answer("POST", f"/containers/{id}/wait"))["StatusCode"] == 0, "as it does not run, it is over"
    starting = await docker.begin("start", "-a", id)
    await docker.shows(id, "Queued")
    assert "a run that was started keeps its name" in await docker("rename", id, "d-other", code=1)
    assert "cannot remove" in await docker("rm", id, code=1)
    assert starting.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while b"d-large is Queued" not in (told := await starting.stderr.readline()):
            assert told, "it ends and has not said so"
        await docker("stop", id)
        assert await starting.wait() == 143
    await docker("rm", "-f", id, gang)


async def test_what_a_cluster_cannot_do_is_refused_with_a_sentence(docker: Docker) -> None:
    refused = await docker("run", "--cap-add", "SYS_ADMIN", "--device", "/dev/fuse", "busybox", code=125)
    assert "--cap-add: only policy gives additional capabilities" in refused and "--device:" in refused
    assert "not a swarm manager" in await docker("node", "ls", code=1)
    assert "volumes are made by the cluster's operators" in await docker("volume", "create", "v", code=1)
    assert "network d-none not found" in await docker("run", "--network", "d-none", "busybox", code=125)
