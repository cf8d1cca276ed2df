"""Throughput of `kaji port-forward` beside that of kubectl, 100 parallel streams, and the latency of a keystroke.

    python -m bench.network.ports            200 MB, five rounds
    python -m bench.network.ports --small    50 MB, three rounds
    python -m bench.network.ports --real     on a real kube-apiserver

`kaji up` runs in a process of its own, on its embedded API server. With `--real`, the Web API, controllers and the
process kubelet run in processes of their own beside a real kube-apiserver. A program in a run sends and receives bytes;
`kaji` and `kubectl` forward its port in turn, from the same server. Then 100 connections at once send and receive a
megabyte each. A WebSocket to a program goes through the proxy of the Web API (`/proxy/…`) and through `kubectl
port-forward`. Last, keys are typed into `kaji exec -it` one by one; the time is that until the member has echoed each.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from tests.harness.kaji_up import installed_kaji_up
from tests.harness.platform.installation import running_installation
from websockets.sync.client import connect

from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.client.target import Target

LEAST_MB_A_SECOND = 40.0
LEAST_SHARE = 0.8
"""Least throughput as a share of kubectl's."""
MOST_KEYSTROKE_MS = 20.0
LEAST_WEBSOCKET_MB_A_SECOND = 10.0
PARALLEL = 100
KEYS = 100
PATIENCE_SECONDS = 60.0
BLOCK = bytes(1 << 20)

PROGRAM = """
import socket, threading
def serve(connection):
    with connection:
        head = connection.makefile("rb", 0).readline().split()
        if head[0] == b"send":
            for _ in range(int(head[1])):
                connection.sendall(bytes(1 << 20))
        else:
            while connection.recv(1 << 20):
                pass
            connection.sendall(b"done")
server = socket.create_server(("127.0.0.1", 0), backlog=200)
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


WEBSOCKETS = """
import asyncio
from websockets.asyncio.server import serve
async def answer(socket):
    async for asked in socket:
        word, megabytes = asked.split()
        for _ in range(int(megabytes)):
            await (socket.send(bytes(1 << 20)) if word == "send" else socket.recv())
        await socket.send("done")
async def main():
    async with serve(answer, "127.0.0.1", 0, max_size=None, compression=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()
asyncio.run(main())
"""


def websocket(url: str, megabytes: int, target: Target | None = None) -> tuple[float, float]:
    """Return MB/s from and to a program by messages of a megabyte; `target` has the token for the URL."""
    headers = {"Authorization": f"Bearer {target.token}"} if target is not None else {}
    tls = target.tls() if target is not None and url.startswith("wss") else None
    with connect(url, additional_headers=headers, ssl=tls, max_size=None, compression=None, proxy=None) as connection:
        began = time.perf_counter()
        connection.send(f"send {megabytes}")
        while connection.recv() != "done":
            pass
        between = time.perf_counter()
        connection.send(f"take {megabytes}")
        for _ in range(megabytes):
            connection.send(BLOCK)
        assert connection.recv() == "done"
        return megabytes / (between - began), megabytes / (time.perf_counter() - between)


def download(port: int, megabytes: int) -> float:
    """Return MB/s from the member, with 2^20 bytes a MB."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        began, left = time.perf_counter(), megabytes << 20
        connection.sendall(b"send %d\n" % megabytes)
        while left and (data := connection.recv(1 << 20)):
            left -= len(data)
        assert not left, f"{left} bytes are missing"
        return megabytes / (time.perf_counter() - began)


def upload(port: int, megabytes: int) -> float:
    """Return MB/s to the member."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        began = time.perf_counter()
        connection.sendall(b"take\n")
        for _ in range(megabytes):
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read() == b"done"
        return megabytes / (time.perf_counter() - began)


def parallel_seconds(port: int) -> float:
    """Return for how long `PARALLEL` connections at once receive and send a megabyte each."""
    began = time.perf_counter()
    with ThreadPoolExecutor(PARALLEL) as threads:
        list(threads.map(lambda _: (download(port, 1), upload(port, 1)), range(PARALLEL)))
    return time.perf_counter() - began


@contextmanager
def forwarding(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[int]:
    """Run a command that forwards a port; yield the local one."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+) ->", process.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.terminate()


def keystrokes(command: Sequence[str], environment: Mapping[str, str]) -> list[float]:
    """Return the milliseconds until each typed key is shown."""
    keyboard, terminal = pty.openpty()
    tty.setraw(terminal)
    process = subprocess.Popen(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    try:
        _read_until(keyboard, b"ready")
        times = []
        for number in range(KEYS):
            key = b"%c" % (97 + number % 26)
            began = time.perf_counter()
            os.write(keyboard, key)
            _read_until(keyboard, key)
            times.append(1000 * (time.perf_counter() - began))
        return times
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


def _read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        assert select.select([terminal], [], [], PATIENCE_SECONDS)[0], seen
        seen += os.read(terminal, 65536)


def start(kaji: str, name: str, program: str, environment: Mapping[str, str], options: Sequence[str]) -> str:
    """Start a run of a program, and return the port that it prints."""
    run = [kaji, "run", "-d", "-q", "--name", name, "--cpus", "0.5", "-m", "256m", *options]
    command = [*run, "python:3.11", sys.executable, "-c", program]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    port = ""
    while not port:
        asked = [kaji, "logs", name]
        port = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    return port


def measure_websockets(
    environment: Mapping[str, str], target: Target, kubectl: Sequence[str], port: str, megabytes: int, rounds: int
) -> list[Limit]:
    """Measure WebSockets to the run `sockets`, and print a table."""
    found: dict[str, list[tuple[float, float]]] = {"/proxy/": [], "kubectl port-forward": []}
    proxied = f"ws{target.url.removeprefix('http')}/proxy/{target.namespace}/sockets/{port}/"
    for _ in range(rounds):
        found["/proxy/"].append(websocket(proxied, megabytes, target))
        with forwarding([*kubectl, "port-forward", "pod/sockets-1-0", f":{port}"], environment) as local:
            found["kubectl port-forward"].append(websocket(f"ws://127.0.0.1:{local}", megabytes))
    columns = ("a WebSocket through", "from the member, MB/s", "to the member, MB/s")
    rows = [
        (way, *(median_and_range(list(one), 0) for one in zip(*pairs, strict=True))) for way, pairs in found.items()
    ]
    print_table(f"WebSockets, {megabytes} MB, load {os.getloadavg()[0]:.1f}", columns, rows)
    ways = zip(("from", "to"), zip(*found["/proxy/"], strict=True), strict=True)
    least = LEAST_WEBSOCKET_MB_A_SECOND
    return [
        Limit(f"a WebSocket {way} the member", statistics.median(one), least=least, unit=" MB/s") for way, one in ways
    ]


def measure(
    environment: Mapping[str, str],
    target: Target,
    kubectl: Sequence[str],
    options: Sequence[str],
    megabytes: int,
    rounds: int,
) -> int:
    """Measure forwarded ports, WebSockets and keystrokes, print tables, and return the exit code.

    `target` is the user's Web API and namespace. `kubectl` is the command with the user's rights and namespace.
    `options` are those of `kaji run`.
    """
    kaji = str(Path(sys.executable).with_name("kaji"))
    inside = start(kaji, "streams", PROGRAM, environment, options)
    ways = {
        "kaji port-forward": [kaji, "port-forward", "streams", f":{inside}"],
        "kubectl port-forward": [*kubectl, "port-forward", "pod/streams-1-0", f":{inside}"],
    }
    found: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in ways}
    parallel: dict[str, float] = {}
    for _ in range(rounds):
        for way, command in ways.items():
            with forwarding(command, environment) as port:
                found[way][0].append(download(port, megabytes))
                found[way][1].append(upload(port, megabytes))
                if way not in parallel:
                    parallel[way] = parallel_seconds(port)
    sockets = start(kaji, "sockets", WEBSOCKETS, environment, options)
    limits = measure_websockets(environment, target, kubectl, sockets, megabytes // 2, rounds)
    keys = keystrokes([kaji, "exec", "-it", "streams", "sh", "-c", "stty raw -echo; echo ready; cat"], environment)
    subprocess.run([kaji, "rm", "-f", "streams", "sockets"], env=environment, check=True, stdout=subprocess.DEVNULL)
    rows = [
        (way, median_and_range(down, 0), median_and_range(up, 0), f"{parallel[way]:.2f}")
        for way, (down, up) in found.items()
    ]
    columns = ("", "from the member, MB/s", "to the member, MB/s", f"{PARALLEL} at once, 1 MB each way, s")
    print_table(f"streams, {megabytes} MB, load {os.getloadavg()[0]:.1f}", columns, rows)
    print_table("a key typed into kaji exec -it", ("", "ms"), [("until it is shown", median_and_range(keys, 1))])
    by_kaji, by_kubectl = (tuple(map(statistics.median, found[way])) for way in ways)
    return print_limits(
        [
            Limit("from the member", by_kaji[0], least=LEAST_MB_A_SECOND, unit=" MB/s"),
            Limit("to the member", by_kaji[1], least=LEAST_MB_A_SECOND, unit=" MB/s"),
            Limit("from the member, share of kubectl's", by_kaji[0] / by_kubectl[0], least=LEAST_SHARE),
            Limit("to the member, share of kubectl's", by_kaji[1] / by_kubectl[1], least=LEAST_SHARE),
            *limits,
            Limit("a keystroke", statistics.median(keys), most=MOST_KEYSTROKE_MS, unit=" ms"),
        ]
    )


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="50 MB, three rounds")
    parser.add_argument("--real", action="store_true", help="on a real kube-apiserver")
    asked = parser.parse_args()
    size = (50, 3) if asked.small else (200, 5)
    kubectl = str(which("kubectl"))
    with tempfile.TemporaryDirectory() as folder:
        if not asked.real:
            with installed_kaji_up(Path(folder)) as environment:
                told = json.loads(Path(folder, "data", "kaji.json").read_text())
                target = Target(told["url"], told["token"], "default")
                return measure(environment, target, [kubectl, f"--kubeconfig={folder}/data/kubeconfig"], (), *size)
        with running_installation(Path(folder)) as installed:
            rights = [kubectl, f"--kubeconfig={installed.kubeconfig('admin')}", "-n", "vision"]
            here = ("--node-selector", "kubernetes.io/hostname=here")
            target = Target(installed.url, installed.token_in("ada"), "vision", ca=installed.authority)
            return measure(installed.kaji_environment("ada"), target, rights, here, *size)


if __name__ == "__main__":
    sys.exit(main())
