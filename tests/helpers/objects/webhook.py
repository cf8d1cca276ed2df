"""A webhook that a real API server asks before it accepts a Pod of one namespace."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.harness.waiting import until

from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS, Resource

WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
TIMEOUT_SECONDS = 1
PROBE: dict[str, Any] = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}


async def refuses(client: KubeClient, resource: Resource, body: dict[str, Any], namespace: str, words: str) -> bool:
    """Return whether the API server would refuse this object with these words."""
    try:
        await client.create(resource, body, namespace, dry_run=True)
    except KajitoriError as error:
        return words in error.message
    return False


class Webhook:
    """An admission webhook that permits everything until it is told otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuses = ""
        """Suffixes of the names of Pods that are refused; `-` refuses all."""
        self.hangs = False
        """If true, reviews are answered too late."""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer an AdmissionReview."""
        review = await request.json()
        if self.hangs:
            await asyncio.sleep(TIMEOUT_SECONDS + 1)
        uid, pod = review["request"]["uid"], review["request"]["name"]
        allowed = not self.refuses or not (self.refuses == "-" or pod.endswith(self.refuses))
        response: dict[str, Any] = {"uid": uid, "allowed": allowed}
        if not allowed:
            response["status"] = {"message": f"{pod} is not wanted here"}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@contextlib.asynccontextmanager
async def asked_for_pods(client: KubeClient, namespace: str, folder: Path) -> AsyncIterator[Webhook]:
    """A webhook that the API server asks for each Pod that is created in the namespace. It is asked from the beginning
    of the context; a real API server follows registrations a moment later."""
    webhook = Webhook(f"pods.{namespace}.example.com")
    certificates = ensure_certificates(folder)
    app = web.Application()
    app.router.add_post("/{path:.*}", webhook.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        authority = base64.b64encode(certificates.ca.read_bytes()).decode()
        registered = {
            "name": webhook.name,
            "clientConfig": {"url": f"https://127.0.0.1:{runner.addresses[0][1]}/", "caBundle": authority},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": TIMEOUT_SECONDS,
            "failurePolicy": "Fail",
        }
        await client.create(WEBHOOKS, {"metadata": {"name": namespace}, "webhooks": [registered]})
        try:
            webhook.refuses = "-"
            await until(lambda: refuses(client, PODS, PROBE, namespace, webhook.name), "the webhook is asked")
            webhook.refuses = ""
            yield webhook
        finally:
            await client.delete(WEBHOOKS, namespace)
    finally:
        await runner.cleanup()
