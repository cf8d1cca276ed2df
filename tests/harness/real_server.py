"""A real kube-apiserver with its etcd, and where wanted kube-scheduler and kube-controller-manager, on loopback.

The binaries are looked for in $KUBEBUILDER_ASSETS, then in the store of setup-envtest (newest version first); etcd may
also come from $PATH. Everything runs in one temporary folder and dies with this process, whatever ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.harness.shared_servers import SHARED_SERVERS

from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.resources import NAMESPACES, PODS

START_SECONDS = 180.0
USERS = ("ada", "grace")
"""Plain users that may do nothing until somebody lets them; `RealServer.config_of` knows their tokens."""
CONTROLLER = "controller"
"""Who controllers of runs are where deploy/ says what they may; nothing, until somebody lets them."""

REAL = (pytest.mark.real, pytest.mark.xdist_group("real"))
"""For tests that need a real API server: all on one worker, so that only one is started."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class KubeServer:
    """What a test needs that runs on the embedded API server and on a real one."""

    config: KubeConfig
    kubeconfig: Path
    is_real: bool
    tokens: Mapping[str, str] = field(repr=False, default_factory=dict)

    def client(self, user: str | None = None) -> KubeClient:
        """A client as admin, or as one of USERS."""
        return KubeClient(self.config.with_token(self.tokens[user]) if user else self.config)


@dataclass(frozen=True)
class RealServer:
    """A running API server. Extra components end with it."""

    config: KubeConfig
    kubeconfig: Path
    folder: Path
    etcd_url: str
    tokens: dict[str, str] = field(repr=False)
    apiserver: _Process = field(repr=False)

    def restart_apiserver(self) -> None:
        """Kills kube-apiserver and starts it again at the same address, with the same data."""
        self.apiserver.kill()
        self.apiserver.start()
        self.apiserver.wait_until(self.is_ready)

    def is_ready(self) -> bool:
        """Whether kube-apiserver answers."""
        return _is_well(int(self.config.server.rpartition(":")[2]), "/readyz", self.tokens["admin"])

    def config_of(self, user: str) -> KubeConfig:
        """The same server as one of USERS, or as CONTROLLER."""
        return self.config.with_token(self.tokens[user])

    def client(self, user: str | None = None) -> KubeClient:
        """A client as admin, or as one of USERS."""
        return KubeClient(self.config_of(user) if user else self.config)

    def scheduler(self, *extra: str) -> contextlib.AbstractContextManager[None]:
        """Runs kube-scheduler, healthy from the beginning of the context to its end."""
        return self._component("kube-scheduler", "--leader-elect=false", *extra)

    def controller_manager(self, *extra: str) -> contextlib.AbstractContextManager[None]:
        """Runs kube-controller-manager, healthy from the beginning of the context to its end."""
        key = self.folder / "service-account.key"
        return self._component(
            "kube-controller-manager",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={key}",
            *extra,
        )

    @contextlib.contextmanager
    def _component(self, name: str, *flags: str) -> Iterator[None]:
        port = free_port()
        process = _Process(
            name,
            [
                str(_binary(name)),
                f"--kubeconfig={self.kubeconfig}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                *_serving(self.folder),
                *flags,
            ],
            self.folder,
        )
        try:
            process.wait_until(lambda: _is_well(port, "/healthz"))
            yield
        finally:
            process.kill()


class _Process:
    """One server with its log in a file; killed when this process dies."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self.start()

    def start(self) -> None:
        """Starts it; what it logged before stays."""
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._command,
                cwd=self.log.parent,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_us,
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Returns when it is ready. Raises RuntimeError with the end of its log where it ends or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self._popen.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._popen.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready within {START_SECONDS:.0f} s:\n{self.tail()}")
            time.sleep(0.1)

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """Ends it at once."""
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()


def _die_with_us() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# ---------------------------------------------------------------------------------------------- binaries


def search_path() -> list[Path]:
    """The folders in which binaries are looked for, in this order."""
    folders = [Path(os.environ["KUBEBUILDER_ASSETS"])] if os.environ.get("KUBEBUILDER_ASSETS") else []
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    store = data / "kubebuilder-envtest" / "k8s"
    versions = sorted(store.iterdir(), key=_version, reverse=True) if store.is_dir() else []
    return folders + (versions or [store])


def _version(folder: Path) -> tuple[int, ...]:
    number = folder.name.partition("-")[0]
    return tuple(int(part) if part.isdigit() else 0 for part in number.split("."))


def unicast_address() -> str:
    """This machine's address on its network: a real API server passes on what nodes are asked to no loopback address.

    The loopback one where there is no other. Nothing is sent.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def find_binary(name: str) -> Path | None:
    """The binary, or None."""
    for folder in search_path():
        if os.access(folder / name, os.X_OK):
            return folder / name
    found = shutil.which(name) if name == "etcd" else None
    return Path(found) if found else None


def _binary(name: str) -> Path:
    found = find_binary(name)
    if found is None:
        raise RuntimeError(f"{name} is not in {', '.join(str(folder) for folder in search_path())}")
    return found


def require_binaries(*names: str) -> None:
    """Skip the test if one of them is missing, and say where it was looked for."""
    missing = [name for name in names if find_binary(name) is None]
    if missing:
        places = ", ".join(str(folder) for folder in search_path())
        pytest.skip(
            f"no {' nor '.join(missing)} in {places}: setup-envtest use, or set $KUBEBUILDER_ASSETS to their folder"
        )


def etcd_fault(version: str) -> str:
    """Return why kube-apiserver cannot use an etcd of this version; empty if it can.

    Older ones cannot report the progress of watches reliably (etcd issues 15220 and 17507), so the API server's cache
    never catches up: lists wait, then fail with "Too large resource version". The versions are those of kube-apiserver
    1.36, `storage/feature/feature_support_checker.go`.
    """
    found = _version(Path(version))
    if found >= (3, 5, 13) or (3, 4, 31) <= found < (3, 5):
        return ""
    return (
        f"etcd {version} is too old for kube-apiserver: lists would fail with 'Too large resource version'; "
        "3.5.13 or newer is needed. `setup-envtest use` installs a current one beside kube-apiserver, which is found "
        "before the one on $PATH; or set $KUBEBUILDER_ASSETS to a folder that has both"
    )


@functools.cache
def _current_etcd() -> Path:
    """etcd, if kube-apiserver can use it. Raises RuntimeError that names the way out if not."""
    binary = _binary("etcd")
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    version = said.partition("etcd Version: ")[2].partition("\n")[0].strip()
    if fault := etcd_fault(version):
        raise RuntimeError(f"{fault} ({binary})")
    return binary


# ---------------------------------------------------------------------------------------------- starting


@contextlib.contextmanager
def running_real_server(*extra_flags: str) -> Iterator[RealServer]:
    """etcd and kube-apiserver, ready, with RBAC, an admin and two plain users. All of it is gone at the end.

    extra_flags: more flags of kube-apiserver. Start it from the main thread: the servers die with the thread.
    """
    folder = Path(tempfile.mkdtemp(prefix="kajitori-cluster-"))
    processes: list[_Process] = []
    try:
        for last in (False, False, True):
            try:
                cluster = _start(folder, processes, extra_flags)
                break
            except RuntimeError as error:  # somebody may have taken a port that was free a moment ago
                if last or "address already in use" not in str(error):
                    raise
                while processes:
                    processes.pop().kill()
                shutil.rmtree(folder / "etcd", ignore_errors=True)
        yield cluster
    finally:
        for process in reversed(processes):  # nothing is worth saving: etcd and its data go, too
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, processes: list[_Process], extra_flags: Sequence[str]) -> RealServer:
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    etcd = _Process(
        "etcd",
        [
            str(_current_etcd()),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
        ],
        folder,
    )
    processes.append(etcd)
    key, public = _service_account_keys(folder)
    tokens = {user: secrets.token_urlsafe(24) for user in ("admin", CONTROLLER, *USERS)}
    token_file = folder / "tokens.csv"
    lines = [f"{tokens['admin']},admin,admin,system:masters"]
    lines += [f"{tokens[CONTROLLER]},{CONTROLLER},{CONTROLLER}"]
    lines += [f"{tokens[user]},{user},{user},researchers" for user in USERS]
    token_file.write_text("\n".join(lines) + "\n")
    token_file.chmod(0o600)
    apiserver = _Process(
        "kube-apiserver",
        [
            str(_binary("kube-apiserver")),
            f"--etcd-servers={etcd_url}",
            *_serving(folder),
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={token_file}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--profiling=false",
            "--endpoint-reconciler-type=none",
            *extra_flags,
        ],
        folder,
    )
    processes.append(apiserver)
    apiserver.wait_until(lambda: _is_well(port, "/readyz", tokens["admin"]))
    config = KubeConfig(server=f"https://127.0.0.1:{port}", ca_file=_certificates(folder).ca)
    kubeconfig = folder / "kubeconfig"
    _write_kubeconfig(kubeconfig, config, tokens["admin"])
    return RealServer(config.with_token(tokens["admin"]), kubeconfig, folder, etcd_url, tokens, apiserver)


def _certificates(folder: Path) -> Certificates:
    return ensure_certificates(folder / "pki")


def _serving(folder: Path) -> tuple[str, str]:
    """A server's flags: the keys that it would make for itself are RSA's, with which each handshake takes 40 times as
    long, and so does its start."""
    made = _certificates(folder)
    return f"--tls-cert-file={made.server}", f"--tls-private-key-file={made.server_key}"


def _service_account_keys(folder: Path) -> tuple[Path, Path]:
    private = ec.generate_private_key(ec.SECP256R1())
    key, public = folder / "service-account.key", folder / "service-account.pub"
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    key.chmod(0o600)
    public.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return key, public


def _write_kubeconfig(path: Path, config: KubeConfig, token: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": config.server, "certificate-authority": str(config.ca_file)}}
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)


def _is_well(port: int, path: str, token: str = "") -> bool:
    """Whether a server that just made its own certificate answers 200 there."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # whom this machine trusts takes a while to read
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with opener.open(request, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:  # urllib's errors are among them
        return False


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ---------------------------------------------------------------------------------------------- fixtures


@pytest.fixture(scope="module")
def real_server() -> RealServer:
    """One real API server for all tests of this group: give each test a namespace of its own."""
    require_binaries("kube-apiserver", "etcd")
    return SHARED_SERVERS.get("real_server", running_real_server)


@pytest.fixture(scope="module")
def with_scheduler(real_server: RealServer) -> Iterator[RealServer]:
    """The real API server, with kube-scheduler as long as this module's tests run."""
    require_binaries("kube-scheduler")
    with real_server.scheduler():
        yield real_server


@pytest.fixture(scope="module")
def with_controller_manager(real_server: RealServer) -> Iterator[RealServer]:
    """The real API server, with kube-controller-manager as long as this module's tests run."""
    require_binaries("kube-controller-manager")
    with real_server.controller_manager():
        yield real_server


@pytest.fixture(params=["embedded", pytest.param("real", marks=REAL)])
async def kube_server(request: pytest.FixtureRequest) -> AsyncIterator[KubeServer]:
    """The embedded API server of this test alone, then a real one that other tests of this worker use, too.

    Nothing but an API server: Pods stay where they are, nodes are made by the test.
    """
    if request.param == "real":
        real: RealServer = request.getfixturevalue("real_server")
        yield KubeServer(real.config, real.kubeconfig, is_real=True, tokens=real.tokens)
        return
    from tests.harness.embedded_server import embedded_server

    async with embedded_server(users=USERS) as embedded:
        config = KubeConfig.from_file(embedded.kubeconfig)
        yield KubeServer(config, embedded.kubeconfig, is_real=False, tokens=embedded.tokens)


@pytest.fixture
async def own_namespace(kube_server: KubeServer) -> AsyncIterator[str]:
    """A namespace of this test's own, and its Pods gone at the end."""
    name = f"test-{secrets.token_hex(4)}"
    async with kube_server.client() as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            await client.delete_collection(PODS, name, label_selector="", grace_seconds=0)
            await client.delete(NAMESPACES, name)
