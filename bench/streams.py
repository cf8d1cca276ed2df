"""Throughput of `kaji port-forward` beside that of kubectl, 100 parallel streams, and the latency of a keystroke.

    python -m bench.streams            200 MB, five rounds
    python -m bench.streams --small    50 MB, three rounds
    python -m bench.streams --real     on a real kube-apiserver

`kaji up` runs in a process of its own, on its embedded API server. With `--real`, the Web API, controllers and the
process kubelet run in processes of their own beside a real kube-apiserver. A program in a run sends and receives bytes;
`kaji` and `kubectl` forward its port in turn, from the same server. Then 100 connections at once send and receive a
megabyte each. Last, keys are typed into `kaji exec -it` one by one; the time is that until the member has echoed each.
"""

from __future__ import annotations

import argparse
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

from bench.parts.common import Limit, median_and_range, print_limits, print_table

LEAST_MB_A_SECOND = 40.0
LEAST_SHARE = 0.8
"""Least throughput as a share of kubectl's."""
MOST_KEYSTROKE_MS = 20.0
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
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        _read_until(ours, b"ready")
        times = []
        for number in range(KEYS):
            key = b"%c" % (97 + number % 26)
            began = time.perf_counter()
            os.write(ours, key)
            _read_until(ours, key)
            times.append(1000 * (time.perf_counter() - began))
        return times
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        assert select.select([terminal], [], [], PATIENCE_SECONDS)[0], seen
        seen += os.read(terminal, 65536)


def measure(
    environment: Mapping[str, str], kubectl: Sequence[str], options: Sequence[str], megabytes: int, rounds: int
) -> int:
    """`kubectl` is the command with the user's rights and namespace, `options` are those of `kaji run`."""
    kaji = str(Path(sys.executable).with_name("kaji"))
    run = [kaji, "run", "-d", "-q", "--name", "streams", "--cpus", "0.5", "-m", "128m", *options]
    subprocess.run(
        [*run, "python:3.11", sys.executable, "-c", PROGRAM], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    inside = ""
    while not inside:
        asked = [kaji, "logs", "streams"]
        inside = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    ways = {
        "kaji port-forward": [kaji, "port-forward", "streams", f":{inside}"],
        "kubectl port-forward": [*kubectl, "port-forward", "pod/streams-1-0", f":{inside}"],
    }
    found: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in ways}
    parallel: dict[str, float] = {}
    for number in range(rounds):
        for way, command in ways.items():
            with forwarding(command, environment) as port:
                found[way][0].append(download(port, megabytes))
                found[way][1].append(upload(port, megabytes))
                if number == 0:
                    began = time.perf_counter()
                    with ThreadPoolExecutor(PARALLEL) as threads:
                        list(threads.map(lambda _, port=port: (download(port, 1), upload(port, 1)), range(PARALLEL)))
                    parallel[way] = time.perf_counter() - began
    keys = keystrokes([kaji, "exec", "-it", "streams", "sh", "-c", "stty raw -echo; echo ready; cat"], environment)
    subprocess.run([kaji, "rm", "-f", "streams"], env=environment, check=True, stdout=subprocess.DEVNULL)
    rows = [
        (way, median_and_range(down, 0), median_and_range(up, 0), f"{parallel[way]:.2f}")
        for way, (down, up) in found.items()
    ]
    columns = ("", "from the member, MB/s", "to the member, MB/s", f"{PARALLEL} at once, 1 MB each way, s")
    print_table(f"streams, {megabytes} MB, load {os.getloadavg()[0]:.1f}", columns, rows)
    print_table("a key typed into kaji exec -it", ("", "ms"), [("until it is shown", median_and_range(keys, 1))])
    ours, theirs = (tuple(map(statistics.median, found[way])) for way in ways)
    return print_limits(
        [
            Limit("from the member", ours[0], least=LEAST_MB_A_SECOND, unit=" MB/s"),
            Limit("to the member", ours[1], least=LEAST_MB_A_SECOND, unit=" MB/s"),
            Limit("from the member, share of kubectl's", ours[0] / theirs[0], least=LEAST_SHARE),
            Limit("to the member, share of kubectl's", ours[1] / theirs[1], least=LEAST_SHARE),
            Limit("a keystroke", statistics.median(keys), most=MOST_KEYSTROKE_MS, unit=" ms"),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="50 MB, three rounds")
    parser.add_argument("--real", action="store_true", help="on a real kube-apiserver")
    asked = parser.parse_args()
    size = (50, 3) if asked.small else (200, 5)
    kubectl = str(which("kubectl"))
    with tempfile.TemporaryDirectory() as folder:
        if not asked.real:
            with installed_kaji_up(Path(folder)) as environment:
                return measure(environment, [kubectl, f"--kubeconfig={folder}/data/kubeconfig"], (), *size)
        with running_installation(Path(folder)) as installed:
            rights = [kubectl, f"--kubeconfig={installed.kubeconfig('admin')}", "-n", "vision"]
            here = ("--node-selector", "kubernetes.io/hostname=here")
            return measure(installed.kaji_environment("ada"), rights, here, *size)


if __name__ == "__main__":
    sys.exit(main())
