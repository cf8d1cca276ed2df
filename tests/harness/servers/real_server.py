"""A real kube-apiserver with its etcd on loopback, and if a test wants them kube-scheduler and kube-controller-manager.

Everything runs in one temporary folder and dies with this process, however this process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.harness.binaries import binary, current_etcd
from tests.harness.servers.kube_server import CONTROLLER, USERS, KubeServer

from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, write_kubeconfig
from kajitori.kube.connection.config import KubeConfig

START_SECONDS = 180.0
LOWEST_PORT = 10_000
"""Servers with well-known ports have lower ones."""
TRIED_PORTS = 100

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class RealServer(KubeServer):
    """A running kube-apiserver. Further components end with it."""

    is_real: bool = True
    folder: Path
    etcd_url: str
    apiserver: _Process = field(repr=False)

    def restart_apiserver(self) -> None:
        """Kill kube-apiserver and start it again at the same address, with the same data."""
        self.apiserver.kill()
        self.apiserver.start()
        self.apiserver.wait_until(self.is_ready)

    def is_ready(self) -> bool:
        """Return whether kube-apiserver responds."""
        return _is_healthy(int(self.config.server.rpartition(":")[2]), "/readyz", self.tokens["admin"])

    def scheduler(self, *extra_flags: str) -> contextlib.AbstractContextManager[None]:
        """Run kube-scheduler, healthy from the beginning of the context to its end."""
        return self._component("kube-scheduler", "--leader-elect=false", *extra_flags)

    def controller_manager(self, *extra_flags: str) -> contextlib.AbstractContextManager[None]:
        """Run kube-controller-manager, healthy from the beginning of the context to its end."""
        key = self.folder / "service-account.key"
        return self._component(
            "kube-controller-manager",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={key}",
            *extra_flags,
        )

    @contextlib.contextmanager
    def _component(self, name: str, *flags: str) -> Iterator[None]:
        port = free_port()
        process = _Process(
            name,
            [
                str(binary(name)),
                f"--kubeconfig={self.kubeconfig}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                *_serving_flags(self.certificates),
                *flags,
            ],
            self.folder,
        )
        try:
            process.wait_until(lambda: _is_healthy(port, "/healthz"))
            yield
        finally:
            process.kill()


class _Process:
    """A server process with its log in a file. It is killed when this process dies."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self.start()

    def start(self) -> None:
        """Start the process; it appends to its log."""
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._command,
                cwd=self.log.parent,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent,
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until the process is ready. Raises RuntimeError with the end of its log if it ends or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self._popen.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._popen.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready within {START_SECONDS:.0f} s:\n{self.tail()}")
            time.sleep(0.1)

    def tail(self, lines: int = 30) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """Kill the process, and wait until it is gone."""
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# ---------------------------------------------------------------------------------------------- starting


@contextlib.contextmanager
def running_real_server(*extra_flags: str) -> Iterator[RealServer]:
    """Run etcd and kube-apiserver, with RBAC, an administrator and the USERS; yields when they are ready.

    `extra_flags` are further flags of kube-apiserver. Call this in the main thread: the processes die with the thread.
    """
    folder = Path(tempfile.mkdtemp(prefix="kajitori-cluster-"))
    processes: list[_Process] = []
    try:
        for last in (False, False, True):
            try:
                server = _start(folder, processes, extra_flags)
                break
            except RuntimeError as error:  # another process may have taken a port that was free a moment ago
                if last or "address already in use" not in str(error):
                    raise
                while processes:
                    processes.pop().kill()
                shutil.rmtree(folder / "etcd", ignore_errors=True)
        yield server
    finally:
        for process in reversed(processes):  # no data is worth an orderly end
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, processes: list[_Process], extra_flags: Sequence[str]) -> RealServer:
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    etcd = _Process(
        "etcd",
        [
            str(current_etcd()),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
            "--heartbeat-interval=1000",  # without peers, ten ticks a second only take processor time
            "--election-timeout=5000",
            "--quota-backend-bytes=4294967296",
        ],
        folder,
    )
    processes.append(etcd)
    certificates = ensure_certificates(folder / "pki")
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
            str(binary("kube-apiserver")),
            f"--etcd-servers={etcd_url}",
            *_serving_flags(certificates),
            f"--client-ca-file={certificates.ca}",
            f"--kubelet-client-certificate={certificates.client}",
            f"--kubelet-client-key={certificates.client_key}",
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",  # for documentation; without it, the machine needs a default route
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
    apiserver.wait_until(lambda: _is_healthy(port, "/readyz", tokens["admin"]))
    url, kubeconfig = f"https://127.0.0.1:{port}", folder / "kubeconfig"
    write_kubeconfig(kubeconfig, server=url, certificates=certificates, token=tokens["admin"])
    return RealServer(
        config=KubeConfig(server=url, ca_file=certificates.ca).with_token(tokens["admin"]),
        kubeconfig=kubeconfig,
        tokens=tokens,
        certificates=certificates,
        folder=folder,
        etcd_url=etcd_url,
        apiserver=apiserver,
    )


def _serving_flags(certificates: Certificates) -> tuple[str, str]:
    """Return the flags for a server's key pair. The pair that a server creates by default is RSA, which makes its start
    and each handshake 40 times as long."""
    return f"--tls-cert-file={certificates.server}", f"--tls-private-key-file={certificates.server_key}"


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


def _is_healthy(port: int, path: str, token: str = "") -> bool:
    """Return whether a server on loopback answers 200; its certificate is not verified."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without this machine's authorities, which take a while to read
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with opener.open(request, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:  # urllib's errors are OSErrors
        return False


def free_port() -> int:
    """Return a TCP port on loopback on which nothing listens now.

    The kernel chooses other ports for sockets that ask for any port, so this one stays free until the caller listens
    there, and while a server that was killed starts again.
    """
    kernels = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(LOWEST_PORT, kernels)
    for port in (*secrets.SystemRandom().sample(ports, min(TRIED_PORTS, len(ports))), 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise RuntimeError("no port is free")
