"""Logs, exec, attach, port-forward and other requests that are passed on to the kubelet of a node."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

import aiohttp
from aiohttp import web
from cryptography import x509
from multidict import MultiMapping

from kajitori.embedded import names
from kajitori.embedded.apiserver.certificates import Certificates
from kajitori.embedded.apiserver.requests.target import Target
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.subresources.streams import Refused, pass_on
from kajitori.embedded.apiserver.writes.objects import Objects
from kajitori.embedded.fingerprints import fingerprint
from kajitori.kube import resources

STREAMS = frozenset({"attach", "exec", "portforward"})
"""Subresources of a Pod that upgrade a connection."""
_LOG_PARAMETERS = (
    "follow",
    "tailLines",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "previous",
    "limitBytes",
    "stream",
)
_LOG_STREAMS = ("All", "Stdout", "Stderr")
_PARAMETERS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""The kubelet's names for the parameters of exec and attach."""
_CONNECT_SECONDS = 10.0
_FALSE = ("", "0", "false")


class _KubeletUrl(NamedTuple):
    """The URL of a request to a kubelet, and the TLS context that trusts the kubelet's certificate."""

    url: str
    tls: ssl.SSLContext


class KubeletProxy:
    """A client of all kubelets. A kubelet's certificate is signed by the cluster's authority, or its Node names it."""

    def __init__(self, objects: Objects, certificates: Certificates) -> None:
        self._objects = objects
        self._certificates = certificates
        self._session: aiohttp.ClientSession | None = None
        self._tls: dict[str, ssl.SSLContext] = {}
        """TLS contexts by the fingerprint that a Node names; under an empty text, the one for the cluster's
        authority."""

    async def close(self) -> None:
        """Close the connections to the kubelets."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def serve(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Answer a request to `pods/log`, `pods/exec`, `pods/attach` or `pods/portforward`.

        Raises:
            StatusError: 400, 404, 405, 500.
        """
        if target.subresource == "log":
            if request.method != "GET":
                raise StatusError.method_not_allowed()
            return await self._log(request, target)
        if request.method not in ("GET", "POST"):
            raise StatusError.method_not_allowed()
        return await self._pass_stream_on(request, target)

    async def of_node(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Answer a GET of `nodes/proxy`, such as `stats/summary`, with the kubelet's own answer.

        Raises:
            StatusError: 404, 405, 500, 503.
        """
        if request.method != "GET":
            raise StatusError.method_not_allowed()
        self._objects.get(target.kind, "", target.name)
        url, tls = await self._kubelet_url(target.name, f"/{target.below}")
        headers = {"X-Forwarded-Uri": request.path}  # as kube-apiserver's proxy says it
        try:
            query = list(request.query.items())
            upstream = await self._http_client().get(url, params=query, headers=headers, ssl=tls)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StatusError(
                503, "ServiceUnavailable", f"error trying to reach service: {_reason_of(error)}", {}
            ) from error
        async with upstream:
            response = web.StreamResponse(status=upstream.status, headers={"Content-Type": upstream.content_type})
            await response.prepare(request)
            return await _passed_on(request, upstream, response)

    # --- logs --------------------------------------------------------------------------------------------------------

    async def _log(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        pod = self._pod_of(target)
        container = _container_name(pod, request.query.get("container", ""))
        _check_log(request)
        node = _node_of(pod)
        if not node:
            # Nothing has been written yet.
            return web.Response(status=204)
        parameters = [(name, request.query[name]) for name in _LOG_PARAMETERS if request.query.get(name)]
        path = f"/containerLogs/{target.namespace}/{target.name}/{container}"
        url, tls = await self._kubelet_url(node, path)
        try:
            upstream = await self._http_client().get(url, params=parameters, ssl=tls)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StatusError.internal(f'Get "{url}": {_reason_of(error)}') from error
        async with upstream:
            if upstream.status != 200:
                raise await _kubelet_refusal(upstream)
            response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            return await _passed_on(request, upstream, response)

    # --- exec, attach, port-forward ----------------------------------------------------------------------------------

    async def _pass_stream_on(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        pod = self._pod_of(target)
        if target.subresource == "portforward":
            path, parameters = f"/portForward/{target.namespace}/{target.name}", _port_parameters(request.query)
        else:
            container = _container_name(pod, request.query.get("container", ""))
            path = f"/{target.subresource}/{target.namespace}/{target.name}/{container}"
            parameters = _remote_parameters(request.query, target.subresource)
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            words = {"exec": "exec into", "attach": "attach to", "portforward": "forward ports of"}
            what = "a completed pod" if target.subresource == "portforward" else "a container in a completed pod"
            raise StatusError.bad_request(f"cannot {words[target.subresource]} {what}; current phase is {phase}")
        node = _node_of(pod)
        if not node:
            raise StatusError.bad_request(f"pod {target.name} does not have a host assigned")
        upgrade = request.headers.get("Upgrade", "").lower()
        if upgrade != "websocket" and not upgrade.startswith("spdy/"):
            raise StatusError.bad_request("unable to upgrade: the request asks for neither WebSocket nor SPDY/3.1")
        url, tls = await self._kubelet_url(node, path)
        try:
            return await pass_on(request, url, parameters, tls, _CONNECT_SECONDS)
        except Refused as refused:
            raise _error_of(refused.code, refused.text) from refused
        except (TimeoutError, OSError) as error:
            raise StatusError.internal(f"error dialing backend: {_reason_of(error)}") from error

    # --- the kubelet of a Pod ----------------------------------------------------------------------------------------

    def _pod_of(self, target: Target) -> Object:
        return self._objects.get(target.kind, target.namespace, target.name).object

    async def _kubelet_url(self, node: str, path: str) -> _KubeletUrl:
        found = self._objects.view.get(resources.NODES, "", node)
        if found is None:
            raise StatusError(500, "", f'nodes "{node}" not found')
        status = found.get("status") or {}
        addresses = {one.get("type"): one.get("address") for one in status.get("addresses") or []}
        address = addresses.get("InternalIP") or addresses.get("Hostname")
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        if not address or not port:
            raise StatusError(500, "", f"node {node} has no kubelet endpoint: it serves neither logs nor exec")
        host = f"[{address}]" if ":" in address else address
        annotations = found["metadata"].get("annotations") or {}
        wanted_fingerprint = annotations.get(names.ANNOTATION_SERVING_CERTIFICATE) or ""
        if wanted_fingerprint not in self._tls:
            self._tls[wanted_fingerprint] = await self._tls_context(node, wanted_fingerprint, address, int(port))
        return _KubeletUrl(f"https://{host}:{port}{path}", self._tls[wanted_fingerprint])

    async def _tls_context(self, node: str, wanted_fingerprint: str, address: str, port: int) -> ssl.SSLContext:
        if not wanted_fingerprint:
            context = ssl.create_default_context(cafile=str(self._certificates.ca))
        else:
            # The certificate is self-signed: its fingerprint is checked first, and then only this certificate is
            # trusted.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(cadata=await _checked_certificate(node, wanted_fingerprint, address, port))
        context.load_cert_chain(self._certificates.client, self._certificates.client_key)
        return context

    def _http_client(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._session


async def _checked_certificate(node: str, wanted_fingerprint: str, address: str, port: int) -> str:
    """Return the certificate (PEM) of the server at this address, if it has the fingerprint that its Node names.

    Raises:
        StatusError: 500, there is no certificate, or another one.
    """
    try:
        certificate = await asyncio.to_thread(ssl.get_server_certificate, (address, port), timeout=_CONNECT_SECONDS)
    except OSError as error:
        raise StatusError.internal(f"error dialing the kubelet of node {node}: {_reason_of(error)}") from error
    if fingerprint(x509.load_pem_x509_certificate(certificate.encode())) != wanted_fingerprint:
        what = f"not the one that the Node's annotation {names.ANNOTATION_SERVING_CERTIFICATE} names"
        raise StatusError.internal(f"the kubelet of node {node} shows a certificate at {address}:{port} that is {what}")
    return certificate


def _node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _container_name(pod: Object, asked: str) -> str:
    """Return the name of the container that a request means.

    Raises:
        StatusError: 400, there is none of that name, or several and none was named.
    """
    meta, spec = pod["metadata"], pod.get("spec") or {}
    main = [one["name"] for one in spec.get("containers") or []]
    first = [one["name"] for one in spec.get("initContainers") or []]
    ephemeral = [one["name"] for one in spec.get("ephemeralContainers") or []]
    if asked:
        if asked not in (*main, *first, *ephemeral):
            raise StatusError.bad_request(f"container {asked} is not valid for pod {meta['name']}")
        return asked
    preferred = (meta.get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if preferred in main:
        return str(preferred)
    if len(main) == 1:
        return str(main[0])
    choice = f"choose one of: [{' '.join(main)}]"
    if first:
        choice += f" or one of the init containers: [{' '.join(first)}]"
    raise StatusError.bad_request(f"a container name must be specified for pod {meta['name']}, {choice}")


def _remote_parameters(query: MultiMapping[str], subresource: str) -> list[tuple[str, str]]:
    """Return the kubelet's parameters for an exec or an attach.

    Raises:
        StatusError: 400, no command, or no stream.
    """
    commands = query.getall("command", []) if subresource == "exec" else []
    if subresource == "exec" and not commands:
        raise StatusError.bad_request("you must specify at least 1 command for the container")
    asked = [(name, "1") for given, name in _PARAMETERS.items() if query.get(given, "").lower() not in _FALSE]
    return [("command", one) for one in commands] + asked


def _port_parameters(query: MultiMapping[str]) -> list[tuple[str, str]]:
    """Return the `port` parameters for the kubelet. Clients that speak SPDY name the port with each stream instead.

    Raises:
        StatusError: 400, invalid port.
    """
    given = query.getall("ports", [])
    ports = [one for value in given for one in value.split(",")]
    for one in ports:
        if not one.isdecimal() or len(one) > 5 or not 0 < int(one) < 65536:
            raise StatusError.bad_request(f"ports: {one!r} is not a port: give numbers from 1 to 65535")
    return [("port", one) for one in ports]


def _check_log(request: web.BaseRequest) -> None:
    query = request.query
    for name in ("tailLines", "sinceSeconds", "limitBytes"):
        value = query.get(name)
        if value and (not value.isdecimal() or (name != "tailLines" and int(value) < 1)):
            raise StatusError.bad_request(f"{name} must be a number of at least {0 if name == 'tailLines' else 1}")
    stream = query.get("stream", "All")
    if stream not in _LOG_STREAMS:
        raise StatusError.bad_request(f"stream must be one of {', '.join(_LOG_STREAMS)}")
    if stream != "All" and query.get("tailLines"):
        raise StatusError.bad_request("`tailLines` and specific `stream` are mutually exclusive for now")
    if query.get("sinceSeconds") and query.get("sinceTime"):
        raise StatusError.bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified")


async def _kubelet_refusal(upstream: aiohttp.ClientResponse) -> StatusError:
    text = (await upstream.content.read(4096)).decode(errors="replace").strip()
    return _error_of(upstream.status, text)


def _error_of(code: int, text: str) -> StatusError:
    if code == 404:
        return StatusError(404, "NotFound", text or "the kubelet does not know this Pod", {})
    if code == 400:
        return StatusError.bad_request(text)
    if code == 501:
        return StatusError(501, "", text, {})
    return StatusError.internal(f"the kubelet answered {code}: {text}")


async def _passed_on(
    request: web.BaseRequest, upstream: aiohttp.ClientResponse, response: web.StreamResponse
) -> web.StreamResponse:
    """Copy the kubelet's answer into the response, piece by piece, and return the response."""
    try:
        async for piece in upstream.content.iter_any():
            await response.write(piece)
    except (aiohttp.ClientError, TimeoutError):
        # The kubelet broke off: the client has to see a broken connection, and not a log that seems complete.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


def _reason_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
