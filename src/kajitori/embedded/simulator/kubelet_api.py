"""The kubelet's own API for simulated nodes, which share one HTTPS port.

`kubectl logs` gets a line that says that no program runs; exec, attach and port forwarding are refused. For statistics,
the header X-Forwarded-Uri of the API server's proxy names the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import ssl
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kajitori.configuration.x509 import CLOCK_MARGIN
from kajitori.core.formats.times import format_time
from kajitori.embedded.fingerprints import fingerprint
from kajitori.embedded.objects import Pod
from kajitori.embedded.simulator.behaviour import Behaviour, is_running

FOLLOW_POLL_SECONDS = 0.5

_NODE = re.compile(r"/api/v1/nodes/([^/]+)/proxy/")


def summary(node: str, pods: Iterable[Pod], now: datetime) -> dict[str, Any]:
    """Return the `/stats/summary` of a node, without Pods that have no annotation about their memory."""
    usages = [(pod, _memory_bytes(pod)) for pod in pods if is_running(pod)]
    return {"node": {"nodeName": node}, "pods": [_pod_usage(pod, size, now) for pod, size in usages if size]}


def _memory_bytes(pod: Pod) -> int:
    try:
        return Behaviour.of(pod.metadata.annotations or {}).memory_bytes
    except ValueError:
        return 0


def _pod_usage(pod: Pod, size_bytes: int, now: datetime) -> dict[str, Any]:
    meta = pod.metadata
    memory = {"time": format_time(now), "workingSetBytes": size_bytes}
    return {
        "podRef": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "memory": memory,
        "containers": [{"name": container.name, "memory": memory} for container in pod.spec.containers],
    }


class KubeletApi:
    """Serves on one address; `find_pod` returns the Pod by namespace and name, `pods_of` the Pods of a node.

    `serving` is a certificate and key (PEM files) that an authority signed; without it the server creates its own.
    """

    def __init__(
        self,
        find_pod: Callable[[str, str], Pod | None],
        pods_of: Callable[[str], Iterable[Pod]],
        serving: tuple[Path, Path] | None = None,
    ) -> None:
        self._find_pod = find_pod
        self._pods_of = pods_of
        self._serving = serving
        self._runner: web.AppRunner | None = None
        self.fingerprint = ""
        """Fingerprint of the certificate, once started, if the server created it."""

    async def start(self, address: str) -> int:
        """Start to serve; return the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._answer_health)
        app.router.add_get("/stats/summary", self._answer_stats)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer_logs)
        for path in ("exec", "attach", "run"):
            app.router.add_route("*", f"/{path}/{{namespace}}/{{pod}}/{{rest:.*}}", self._refuse)
        app.router.add_route("*", "/portForward/{namespace}/{pod}", self._refuse)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, 0, ssl_context=self._tls_context(address))
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _tls_context(self, address: str) -> ssl.SSLContext:
        if self._serving is None:
            context, self.fingerprint = _self_signed(address)
            return context
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._serving)
        return context

    async def _answer_health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _answer_stats(self, request: web.Request) -> web.Response:
        asked = _NODE.match(request.headers.get("X-Forwarded-Uri", ""))
        if asked is None:
            text = "simulated nodes share this address: ask the API server, /api/v1/nodes/NAME/proxy/stats/summary\n"
            return web.Response(status=400, text=text)
        node = asked[1]
        return web.json_response(summary(node, self._pods_of(node), datetime.now(UTC)))

    async def _answer_logs(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        container = request.match_info["container"]
        pod = self._find_pod(namespace, name)
        if pod is None:
            return web.Response(status=404, text=f'pod "{name}" not found\n')
        spec = pod.spec
        if container not in {c.name for c in (*spec.containers, *(spec.init_containers or ()))}:
            return web.Response(status=404, text=f'container "{container}" not found in pod "{name}"\n')
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        with contextlib.suppress(ConnectionError):  # the client may disconnect at any moment
            await self._write_log(request, response, pod, container)
        return response

    async def _write_log(self, request: web.Request, response: web.StreamResponse, pod: Pod, container: str) -> None:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        await response.prepare(request)
        line = f"simulated: {pod.spec.node_name} only pretends to run container {container} of {namespace}/{name}\n"
        if request.query.get("timestamps") == "true":
            line = f"{pod.status.start_time or format_time(datetime.now(UTC))} {line}"
        if request.query.get("tailLines") != "0":
            await response.write(line.encode())
        while request.query.get("follow") == "true":
            await asyncio.sleep(FOLLOW_POLL_SECONDS)
            latest = self._find_pod(namespace, name)
            if latest is None or latest.is_finished or latest.metadata.uid != pod.metadata.uid:
                break
        await response.write_eof()

    async def _refuse(self, request: web.Request) -> web.Response:
        name = request.match_info["pod"]
        return web.Response(status=501, text=f"pod {name} is simulated: it has no processes to work with\n")


def _self_signed(address: str) -> tuple[ssl.SSLContext, str]:
    """Return TLS settings with a new certificate for this address, and its fingerprint. Its key is on disk only while
    it is loaded."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kajitori simulated nodes")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_MARGIN)
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="kajitori-sim-") as folder:
        path = Path(folder) / "both.pem"
        path.touch(mode=0o600)
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context.load_cert_chain(path)
    return context, fingerprint(certificate)
