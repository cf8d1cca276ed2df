"""`kaji up` itself: its start, options, policy, addresses and networks."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness import commands
from tests.harness.commands import kaji, start_kaji
from tests.harness.kaji_up import KajiUp
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, wait_until
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks

pytestmark = pytest.mark.xdist_group("e2e-up")

SERVE = "import http.server as h; h.HTTPServer(('', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
ASK = """import os, time, urllib.request
for name in ("one", "two"):
    for _ in range(500):
        try: print(name, "says", urllib.request.urlopen(f"http://{name}:8000/said").read().decode()); break
        except OSError: time.sleep(0.02)
"""


def test_readyz_succeeds_once_this_machine_is_a_node(tmp_path: Path) -> None:
    it = KajiUp(tmp_path)
    port = free_port()

    def answer(path: str) -> tuple[int, Any]:
        token = (it.data / "token").read_text().strip() if (it.data / "token").exists() else ""
        headers = {"Authorization": f"Bearer {token}"}
        try:
            found = httpx2.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=PATIENCE_SECONDS)
        except httpx2.TransportError:
            return 0, None
        return found.status_code, found.json()

    with it.log.open("ab") as log:
        it.process = start_kaji(
            "up", "--data", str(it.data), "--port", str(port), env=it.environment, cwd=it.home, log=log
        )
    try:
        wait_until(lambda: answer("/readyz")[0] == 200, it.log.read_text, every=0.002)
        nodes = answer("/v1/nodes")[1]["items"]
        assert [node["ready"] for node in nodes] == [True], nodes
    finally:
        it.kill()


def test_the_network_of_this_machine_is_measured(up: KajiUp) -> None:
    """By real runs over loopback, which the conclusion says; they are removed afterwards."""
    here = socket.gethostname().lower()
    answer = up.kaji("network", "bench", here, here, "--seconds", "0.2", "--cpus", "0.2", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [item["kind"] for item in found["items"]] == ["pods", "hosts"]
    assert all(item["bitsPerSecond"] > 0 and item["mtu"] >= 1280 for item in found["items"])
    assert found["conclusions"][0].startswith(f"Both ends are on {here}")
    wait_until(lambda: not any(name.startswith("network-") for name in up.runs()))


def test_no_other_user_can_read_the_token(up: KajiUp) -> None:
    for name in ("kaji.json", "token", "kubeconfig"):
        assert (up.data / name).stat().st_mode & 0o077 == 0, name


def test_a_second_kaji_up_on_the_same_folder_is_refused(up: KajiUp) -> None:
    """It changes no file of the first one, which works on."""
    files = [up.data / name for name in ("kaji.json", "kubeconfig", "token", "ports.json", "pki/ca.crt")]
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    answer = up.kaji("up", "--data", str(up.data), "--nodes", "1")
    assert answer.returncode == 125
    assert str(up.data) in answer.stderr and "Traceback" not in answer.stderr
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files] == before
    assert up.kaji("run", "-q", "--rm", "busybox", "echo", "still here").stdout == "still here\n"


def test_kaji_up_names_the_option_that_it_cannot_use(up: KajiUp, tmp_path: Path) -> None:
    """A file in place of a folder, an address of another machine, a port in use: without a traceback."""
    port = json.loads((up.data / "kaji.json").read_text())["url"].rpartition(":")[2]
    file = tmp_path / "file"
    file.touch()
    for options, code, words in (
        (("--data", str(file)), 2, f"--data: {file} cannot be used: it is not a folder"),
        (("--host", "192.0.2.1"), 2, "--host: 192.0.2.1: Cannot assign requested address"),
        (("--port", port), 125, f"cannot listen on 127.0.0.1:{port}: the port is in use"),
    ):
        answer = up.kaji("up", "--data", str(tmp_path / "data"), *options)
        assert (answer.returncode, words in answer.stderr) == (code, True), answer.stderr


def test_kaji_up_says_which_policy_is_in_force(up: KajiUp, tmp_path: Path) -> None:
    """A policy file in the data folder replaces the default for one machine, and the log says so. A missing or faulty
    file is refused before a cluster starts."""
    wait_until(lambda: "The policy is the default for one machine" in up.log.read_text(), up.log.read_text)
    it = KajiUp(tmp_path)
    it.data.mkdir()
    missing = it.kaji("up", "--data", str(it.data), "--policy", "no.yaml")
    assert (missing.returncode, "there is no file no.yaml" in missing.stderr) == (2, True)
    file = it.data / "policy.yaml"
    file.write_text("defaults: {restart: 1}")
    faulty = it.kaji("up", "--data", str(it.data))
    assert (faulty.returncode, "did you mean restarts?" in faulty.stderr) == (2, True)
    assert not (it.data / "kubeconfig").exists()
    file.write_text("defaults: {restarts: 1}")
    try:
        it.start("--no-kubelet", "--nodes", "1", "--memory")
        wait_until(lambda: f"The policy is {file}, which replaces" in it.log.read_text(), it.log.read_text)
    finally:
        it.kill()


def test_other_machines_are_served_with_tls(tmp_path: Path) -> None:
    """Commands and members trust the folder's own authority. No token is sent in plain text."""
    up = KajiUp(tmp_path)
    up.start("--host", "0.0.0.0")
    try:
        said = json.loads((up.data / "kaji.json").read_text())
        assert said["url"].startswith("https://127.0.0.1:")
        assert up.kaji("run", "--rm", "--replicas", "2", "x", "sh", "-c", "cat $KAJI_HOSTS").returncode == 0
        url = next(word for word in up.log.read_text().split() if word.startswith("KAJI_SERVER=https://"))
        token = (up.data / "token").read_text().strip()
        elsewhere = {"KAJI_SERVER": url.partition("=")[2], "KAJI_TOKEN": token}
        trusted = up.environment | elsewhere | {"KAJI_CA": str(up.data / "pki" / "ca.crt")}
        assert kaji("ps", env=trusted, cwd=up.home).returncode == 0
        assert "can't be trusted" in kaji("ps", env=up.environment | elsewhere, cwd=up.home).stderr
        plain = {"KAJI_SERVER": elsewhere["KAJI_SERVER"].replace("https", "http")}
        refused = kaji("ps", env=trusted | plain, cwd=up.home)
        assert (refused.returncode, "plain text" in refused.stderr) == (2, True)
    finally:
        up.kill()


@pytest.mark.root
@needs_networks
@in_a_network_of_its_own
def test_pods_of_kaji_up_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Two programs listen on the same port and are found by name. Members of a gang get their code from the Web API, at
    the address of the bridge. --network none needs no container engine."""
    ip("link set lo up")
    commands._server.cache_clear()  # the server of `kaji` processes has the machine's network
    it, small = KajiUp(tmp_path), ("--cpus", "0.1", "-m", "64m")
    it.start("--pod-network", "namespace", "--engine", "process")
    try:
        for name in ("one", "two"):
            (it.home / name).mkdir()
            (it.home / name / "said").write_text(f"I am {name}")
            place = ("--name", name, "--network", "shop", "-v", f"{it.home}:{it.home}", "-w", str(it.home / name))
            assert it.kaji("run", "-d", *place, *small, "x", sys.executable, "-c", SERVE).returncode == 0
        (it.home / "code").mkdir()
        (it.home / "code" / "ask.py").write_text(ASK)
        gang = ("--name", "asks", "-n", "2", "--network", "shop", "--code", "code", *small)
        asked = it.kaji("run", *gang, "x", sys.executable, "ask.py")
        assert asked.returncode == 0, asked.stderr
        assert it.kaji("logs", "--rank", "1", "asks").stdout == "one says I am one\ntwo says I am two\n"
        alone = it.kaji("run", "--network", "none", *small, "x", "cut", "-d:", "-f1", "-s", "/proc/net/dev")
        assert alone.stdout.split() == ["lo"], alone.stderr
        it.kaji("rm", "-f", *it.runs())
        wait_until(lambda: not it.runs())
    finally:
        it.kill()
    assert not [device for device in Path("/sys/class/net").iterdir() if device.name.startswith("kaji-")]
