"""A small API server on loopback: objects in memory, watches, access reviews, logs, exec and port-forward."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from tests.unit.api.fake_programs import FakeLog, Object, echo_port, echo_stdin, error_status, run_here, send_log

Key = tuple[str, str, str]
"""Plural, namespace, name."""

NAMESPACED = ("pods", "runs", "events", "secrets", "persistentvolumeclaims", "resourcequotas")
KINDS = {"pods": "Pod", "nodes": "Node", "runs": "Run", "events": "Event"}


class FakeKubernetes:
    """The server; `url` is set once it runs. Tokens are names of users, and `robot.NAMESPACE.NAME` is that of a service
    account; `denied` holds (user, verb, resource, namespace)."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[Key, Object] = {}
        self.denied: set[tuple[str, str, str, str]] = set()
        self.unknown_tokens: set[str] = {"expired"}
        self.logs: dict[tuple[str, str], FakeLog] = {}
        self.requests: list[tuple[str, str, str]] = []
        """Method, path and user of every request except watches."""
        self.log_requests: list[dict[str, str]] = []
        self.before_no_log: Callable[[], Awaitable[object]] | None = None
        """Called before a request for the log of an unknown Pod is answered."""
        self.missing_namespaces: set[str] = set()
        self.failing = False
        self.disk_is_full = False
        self.ports_left = asyncio.Event()
        """Set when a connection to a port has ended."""
        self.runs_programs = False
        """Whether exec runs its command on this machine, instead of a program that echoes."""
        self.hold_watches = False
        """Whether events are withheld from watchers."""
        self._version = itertools.count(1000)
        self._watchers: list[tuple[str, str, asyncio.Queue[Object]]] = []
        self._held: list[tuple[str, Object]] = []

    # ------------------------------------------------------------------------------------------ steps of the tests

    def put(self, plural: str, document: Object) -> Object:
        """Create or replace an object."""
        made = copy.deepcopy(document)
        meta = made["metadata"]
        key = (plural, meta.get("namespace", ""), meta["name"])
        old = self.objects.get(key)
        meta["resourceVersion"] = str(next(self._version))
        meta.setdefault(
            "uid", old["metadata"]["uid"] if old else f"uid-{plural}-{meta['name']}-{meta['resourceVersion']}"
        )
        meta.setdefault("creationTimestamp", "2026-11-21T10:00:00Z")
        if plural == "runs":
            before = old["metadata"]["generation"] if old else 0
            meta["generation"] = before + (old is None or old["spec"] != made["spec"])
        self.objects[key] = made
        self._notify(plural, {"type": "MODIFIED" if old else "ADDED", "object": made})
        return made

    def change(self, plural: str, name: str, namespace: str = "team", **parts: Any) -> Object:
        """Merge parts into an object."""
        return self.put(plural, _merge(self.objects[plural, namespace, name], parts))

    def remove(self, plural: str, name: str, namespace: str = "team") -> None:
        """Delete an object."""
        gone = copy.deepcopy(self.objects.pop((plural, namespace, name)))
        gone["metadata"]["resourceVersion"] = str(next(self._version))
        self._notify(plural, {"type": "DELETED", "object": gone})

    def release_watches(self) -> None:
        """Send the withheld events."""
        self.hold_watches = False
        held, self._held = self._held, []
        for plural, event in held:
            self._notify(plural, event)

    def get(self, plural: str, name: str, namespace: str = "team") -> Object:
        return self.objects[plural, namespace, name]

    # ------------------------------------------------------------------------------------------ requests of clients

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware])
        app.router.add_get("/version", self._version_of)
        app.router.add_post("/apis/authentication.k8s.io/v1/selfsubjectreviews", self._review_identity)
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._review_token)
        app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._review_access)
        k8s = ("coordination", "scheduling", "admissionregistration", "rbac.authorization")
        groups = [f"{name}.k8s.io/v1" for name in k8s]
        served = "|".join(["api/v1", "apis/kajitori.dev/v1alpha1", *(f"apis/{group}" for group in groups)])
        base = f"/{{served:{served}}}"
        app.router.add_get(base + "/namespaces/{namespace}/pods/{name}/log", self._log)
        app.router.add_get(base + "/namespaces/{namespace}/pods/{name}/exec", self._exec)
        app.router.add_get(base + "/namespaces/{namespace}/pods/{name}/attach", self._exec)
        app.router.add_get(base + "/namespaces/{namespace}/pods/{name}/portforward", self._port_forward)
        for collection in (base + "/namespaces/{namespace}/{plural}", base + "/{plural}"):
            app.router.add_get(collection, self._list)
            app.router.add_post(collection, self._create)
            app.router.add_get(collection + "/{name}", self._get)
            app.router.add_patch(collection + "/{name}", self._patch)
            app.router.add_put(collection + "/{name}", self._put)
            app.router.add_delete(collection + "/{name}", self._delete)
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        user = self._user(request)
        if "watch" not in request.query:
            self.requests.append((request.method, request.path, user))
        if self.failing:
            return error_status(500, "InternalError", "injected")
        if user in self.unknown_tokens:
            return error_status(401, "Unauthorized", "Unauthorized")
        response: web.StreamResponse = await handler(request)
        return response

    def _user(self, request: web.Request) -> str:
        token = request.headers.get("Authorization", "Bearer admin").removeprefix("Bearer ")
        kind, *account = token.split(".")
        return f"system:serviceaccount:{':'.join(account)}" if kind == "robot" else token

    async def _version_of(self, request: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.36.2"})

    async def _review_identity(self, request: web.Request) -> web.Response:
        info = {"username": self._user(request), "groups": ["system:authenticated"]}
        return web.json_response({"kind": "SelfSubjectReview", "status": {"userInfo": info}}, status=201)

    async def _review_token(self, request: web.Request) -> web.Response:
        """Accept tokens of Pods in namespace kajitori-agents: `pod.ACCOUNT.AUDIENCE.NODE.POD.UID`."""
        asked = (await request.json())["spec"]
        status: Object = {"user": {}, "error": "not known"}
        kind, _, rest = asked["token"].partition(".")
        if kind == "pod":
            account, audience, node, pod, uid = rest.split(".")
            if audience in asked["audiences"]:
                extra = {"node-name": [node], "pod-name": [pod], "pod-uid": [uid]}
                extra = {f"authentication.kubernetes.io/{key}": value for key, value in extra.items() if value != [""]}
                user = {"username": f"system:serviceaccount:kajitori-agents:{account}", "extra": extra}
                status = {"authenticated": True, "user": user, "audiences": [audience]}
        return web.json_response({"kind": "TokenReview", "status": status}, status=201)

    async def _review_access(self, request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        question = (self._user(request), asked["verb"], what)
        namespace = asked.get("namespace", "")
        denied = any((*question, where) in self.denied for where in {namespace, "*"})
        return web.json_response({"kind": "SelfSubjectAccessReview", "status": {"allowed": not denied}}, status=201)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        plural, namespace = request.match_info["plural"], request.match_info.get("namespace", "")
        if "watch" in request.query:
            return await self._watch(request, plural, namespace)
        if not self._may(request, "list", plural, namespace):
            return error_status(403, "Forbidden", f"may not list {plural}")
        items = [
            item for key, item in self.objects.items() if key[0] == plural and (not namespace or key[1] == namespace)
        ]
        meta = {"resourceVersion": str(next(self._version))}
        if "as=Table" in request.headers.get("Accept", ""):
            return web.json_response(_table(items, int(request.query["limit"]), request.query.get("continue", "")))
        return web.json_response({"kind": "List", "metadata": meta, "items": items})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[Object] = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for key, item in self.objects.items():
            if key[0] == plural and int(item["metadata"]["resourceVersion"]) > since:
                queue.put_nowait({"type": "ADDED", "object": item})
        entry = (plural, namespace, queue)
        self._watchers.append(entry)
        try:
            await response.prepare(request)
            while True:
                await response.write(json.dumps(await queue.get()).encode() + b"\n")
        finally:
            self._watchers.remove(entry)

    def _notify(self, plural: str, event: Object) -> None:
        if self.hold_watches:
            self._held.append((plural, copy.deepcopy(event)))
            return
        event["object"].setdefault("kind", KINDS.get(plural, "Object"))
        for watched, namespace, queue in self._watchers:
            if watched == plural and namespace in ("", event["object"]["metadata"].get("namespace", "")):
                queue.put_nowait(copy.deepcopy(event))

    def _may(self, request: web.Request, verb: str, plural: str, namespace: str) -> bool:
        user = self._user(request)
        return not any((user, verb, plural, where) in self.denied for where in {namespace, "*"})

    async def _create(self, request: web.Request) -> web.Response:
        plural, namespace = request.match_info["plural"], request.match_info.get("namespace", "")
        if not self._may(request, "create", plural, namespace):
            return error_status(403, "Forbidden", f"may not create {plural}")
        if namespace in self.missing_namespaces:
            return error_status(404, "NotFound", f'namespaces "{namespace}" not found')
        body = await request.json()
        meta = body["metadata"]
        if namespace:
            meta["namespace"] = namespace
        if self.disk_is_full:
            return error_status(507, "InternalError", "the change could not be stored: database or disk is full")
        if present := self.objects.get((plural, namespace, meta["name"])):
            leaving = "object is being deleted: " if present["metadata"].get("deletionTimestamp") else ""
            return error_status(409, "AlreadyExists", f"{leaving}{plural} {meta['name']} already exists")
        if request.query.get("dryRun"):
            meta |= {"uid": "uid-dry", "creationTimestamp": "2026-11-21T10:00:00Z"}
            return web.json_response(body, status=201)
        return web.json_response(self.put(plural, body), status=201)

    def _found(self, request: web.Request) -> Object | None:
        key = (request.match_info["plural"], request.match_info.get("namespace", ""), request.match_info["name"])
        return self.objects.get(key)

    async def _get(self, request: web.Request) -> web.Response:
        plural, namespace = request.match_info["plural"], request.match_info.get("namespace", "")
        if not self._may(request, "get", plural, namespace):
            return error_status(403, "Forbidden", f"may not get {plural}")
        found = self._found(request)
        return web.json_response(found) if found else error_status(404, "NotFound", "not found")

    async def _patch(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if found is None:
            return error_status(404, "NotFound", "not found")
        if not self._may(request, "patch", request.match_info["plural"], request.match_info.get("namespace", "")):
            return error_status(403, "Forbidden", "may not patch")
        patch = await request.json()
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != found["metadata"]["resourceVersion"]:
            return error_status(409, "Conflict", "changed meanwhile")
        return web.json_response(self.put(request.match_info["plural"], _merge(found, patch)))

    async def _put(self, request: web.Request) -> web.Response:
        plural = request.match_info["plural"]
        if not self._may(request, "update", plural, request.match_info["namespace"]):
            return error_status(403, "Forbidden", f"may not update {plural}")
        return web.json_response(self.put(plural, await request.json()))

    async def _delete(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if found is None:
            return error_status(404, "NotFound", "not found")
        if not self._may(request, "delete", request.match_info["plural"], request.match_info["namespace"]):
            return error_status(403, "Forbidden", "may not delete")
        options = await request.json() if request.can_read_body else {}
        uid = found["metadata"]["uid"]
        if (options.get("preconditions") or {}).get("uid", uid) != uid:
            return error_status(409, "Conflict", "Precondition failed: UID in precondition")
        self.remove(request.match_info["plural"], request.match_info["name"], request.match_info["namespace"])
        return web.json_response(found)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        self.log_requests.append(dict(request.query) | {"pod": request.match_info["name"]})
        if not self._may(request, "get", "pods/log", request.match_info["namespace"]):
            return error_status(403, "Forbidden", "may not get pods/log")
        log = self.logs.get((request.match_info["namespace"], request.match_info["name"]))
        if log is None:
            if self.before_no_log is not None:
                await self.before_no_log()
            return error_status(404, "NotFound", "pod not found")
        if log.status != 200:
            return error_status(
                log.status, "BadRequest" if log.status == 400 else "InternalError", "container is waiting"
            )
        if "stream" in request.query and log.is_merged:
            return error_status(422, "Invalid", "stream: Forbidden: may not be specified")
        return await send_log(request, log)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        subresource = f"pods/{request.path.rpartition('/')[2]}"
        if not self._may(request, "create", subresource, request.match_info["namespace"]):
            return error_status(403, "Forbidden", f"may not create {subresource}")
        return await (run_here if self.runs_programs else echo_stdin)(request)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        if not self._may(request, "create", "pods/portforward", request.match_info["namespace"]):
            return error_status(403, "Forbidden", "may not create pods/portforward")
        try:
            return await echo_port(request)
        finally:
            self.ports_left.set()


def node(name: str, *, gpus: int = 0, gpu_type: str = "", ready: bool = True, cordoned: bool = False) -> Object:
    """Return a Node with 32 cores and 128 GiB."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "message": "" if ready else "silent"}
    return {
        "metadata": {"name": name, "labels": {"kajitori.dev/gpu-type": gpu_type} if gpu_type else {}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [condition]},
    }


def run(name: str, *, namespace: str = "team", owner: str = "ada", phase: str = "", **spec: Any) -> Object:
    """Return a Run as a user created it; with a phase, as a controller updated it."""
    document: Object = {
        "apiVersion": "kajitori.dev/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"kajitori.dev/owner": owner}},
        "spec": {"image": "python:3.11", **spec},
    }
    if phase:
        document["status"] = {"phase": phase, "members": {"total": 1}}
    return document


def pod(
    run: Object, *, attempt: int = 1, rank: int = 0, node: str = "n1", phase: str = "Running", gpus: int = 0
) -> Object:
    """Return a Pod of a member of a Run."""
    meta = run["metadata"]
    states: dict[str, Object] = {
        "Running": {"running": {"startedAt": "2026-11-21T10:00:05Z"}},
        "Pending": {"waiting": {"reason": "ContainerCreating"}},
        "Succeeded": {
            "terminated": {"exitCode": 0, "startedAt": "2026-11-21T10:00:05Z", "finishedAt": "2026-11-21T10:01:00Z"}
        },
        "Failed": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T10:01:00Z"}},
    }
    requests = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    labels = {"run": meta["name"], "run-uid": meta["uid"], "attempt": str(attempt), "rank": str(rank)}
    return {
        "metadata": {
            "name": f"{meta['name']}-{attempt}-{rank}",
            "namespace": meta["namespace"],
            "labels": {f"kajitori.dev/{key}": value for key, value in labels.items()},
            "ownerReferences": [{"kind": "Run", "name": meta["name"], "uid": meta["uid"], "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {
            "phase": phase,
            "podIP": "10.0.0.1",
            "startTime": "2026-11-21T10:00:04Z",
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": states[phase]}],
        },
    }


def attempts(count: int, *, ranks: int = 1, **more: Any) -> Object:
    """Return the part of a status with the number of attempts, and the number of ranks of the last attempt."""
    attempt = {"number": count, "nodes": f"n1*{ranks}", "created": True, "startedAt": "2026-11-21T10:00:05Z"}
    return {"attempts": count, "attempt": attempt, **more}


def _merge(old: Object, patch: Object) -> Object:
    merged = copy.deepcopy(old)
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _table(items: list[Object], limit: int, after: str) -> Object:
    """Return a page of Secrets as a table for `kubectl get`; only the first page has column titles."""
    begin = int(after or "0")
    page, rest = items[begin : begin + limit], items[begin + limit :]
    rows = [
        {
            "cells": [item["metadata"]["name"], item.get("type", ""), len(item.get("data") or {}), "5d"],
            "object": {"kind": "PartialObjectMetadata", "metadata": item["metadata"]},
        }
        for item in page
    ]
    columns = [{"name": name} for name in ("Name", "Type", "Data", "Age")]
    meta = {"continue": str(begin + limit)} if rest else {}
    return {"kind": "Table", "columnDefinitions": columns if not begin else None, "rows": rows, "metadata": meta}


@asynccontextmanager
async def fake_kubernetes() -> AsyncIterator[FakeKubernetes]:
    """Run a FakeKubernetes."""
    fake = FakeKubernetes()
    runner = web.AppRunner(fake.application(), shutdown_timeout=0.1, handler_cancellation=True, max_line_size=1 << 20)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        fake.url = f"http://{host}:{port}"
        yield fake
    finally:
        for log in fake.logs.values():
            with suppress(Exception):
                log.end()
        await runner.cleanup()
