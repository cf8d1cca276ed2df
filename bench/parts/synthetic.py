"""A synthetic cluster over HTTP: Nodes and Pods of realistic size, listed in pages and watched.

`python -m bench.parts.synthetic NODES PODS EVENTS` prints its URL and serves until its standard input closes. Under
`/busy` the Pods' collection starts empty and has EVENTS events to watch; under `/full` all Pods are there, with as many
events.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from bench.parts.processes import say

DAEMON_PODS_PER_NODE = 9
FIRST_VERSION = 1_000_000
BLOCK_BYTES = 1 << 17

_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def _managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "%(time)s"}
    return (
        entry | {"fieldsType": "FieldsV1", "fieldsV1": fields} | ({"subresource": subresource} if subresource else {})
    )


def _pod_template(kind: str, containers: int) -> bytes:
    """A Pod as an API server serves it, with placeholders for the fields that differ between Pods."""
    environment: list[dict[str, Any]] = [
        {"name": f"SETTING_{n}", "value": f"value-of-setting-{n}-in-this-deployment"} for n in range(6)
    ]
    environment.append(
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    )
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "config", "mountPath": "/etc/config", "readOnly": True},
        {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    resources = {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "2", "memory": "8Gi"}}
    if kind == "run":
        resources["limits"]["nvidia.com/gpu"] = resources["requests"]["nvidia.com/gpu"] = "8"
    names = ["main", *(f"helper-{n}" for n in range(1, containers))]
    labels = {"app.kubernetes.io/name": "%(app)s", "app.kubernetes.io/part-of": kind, "pod-template-hash": "%(hash)s"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "%(app)s-%(hash)s", "uid": "%(owner)s"}
    if kind == "run":
        owner |= {"apiVersion": "kajitori.dev/v1alpha1", "kind": "Run", "name": "%(app)s"}
        labels |= {"kajitori.dev/run": "%(app)s", "kajitori.dev/run-uid": "%(owner)s", "kajitori.dev/rank": "%(rank)s"}
    fields = {
        "f:metadata": {
            "f:generateName": {},
            "f:labels": {".": {}, **{f"f:{name}": {} for name in labels}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"%(owner)s"}': {}},
        },
        "f:spec": {
            "f:containers": {
                f'k:{{"name":"{name}"}}': {
                    part: {} for part in ("f:image", "f:name", "f:resources", "f:volumeMounts", "f:env", "f:command")
                }
                for name in names
            },
            **{f"f:{part}": {} for part in ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName")},
        },
    }
    status_fields: dict[str, Any] = {
        "f:status": {
            "f:conditions": {f'k:{{"type":"{c}"}}': {".": {}, "f:status": {}, "f:type": {}} for c in _CONDITIONS},
            **{f"f:{part}": {} for part in ("containerStatuses", "hostIP", "phase", "podIP", "podIPs", "startTime")},
        }
    }
    digest = "registry.example.com/team/image@sha256:" + "0123456789abcdef" * 4
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "%(name)s",
            "generateName": "%(app)s-%(hash)s-",
            "namespace": "%(namespace)s",
            "uid": "%(uid)s",
            "resourceVersion": "%(version)s",
            "generation": 1,
            "creationTimestamp": "%(time)s",
            "labels": labels,
            "annotations": {"cni.projectcalico.org/podIP": "%(ip)s/32", "checksum/config": "0123456789abcdef" * 4},
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            "managedFields": [
                _managed("kube-controller-manager", fields),
                _managed("kubelet", status_fields, "status"),
            ],
        },
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "%(app)s-data"}},
                {"name": "config", "configMap": {"name": "%(app)s-config", "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"sources": [], "defaultMode": 420}},
            ],
            "containers": [
                {
                    "name": name,
                    "image": "registry.example.com/team/image:2026.11",
                    "command": ["python", "-m", "service", "--config", "/etc/config/service.yaml"],
                    "env": environment,
                    "resources": resources,
                    "volumeMounts": mounts,
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
                for name in names
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": "%(node)s",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": c, "status": "True", "lastProbeTime": None, "lastTransitionTime": "%(time)s"}
                for c in _CONDITIONS
            ],
            "hostIP": "%(host)s",
            "hostIPs": [{"ip": "%(host)s"}],
            "podIP": "%(ip)s",
            "podIPs": [{"ip": "%(ip)s"}],
            "startTime": "%(time)s",
            "containerStatuses": [
                {
                    "name": name,
                    "state": {"running": {"startedAt": "%(started)s"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example.com/team/image:2026.11",
                    "imageID": digest,
                    "containerID": "containerd://%(uid)s%(uid)s",
                    "started": True,
                }
                for name in names
            ],
            "qosClass": "Burstable",
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _node_template() -> bytes:
    labels = {
        "kubernetes.io/hostname": "%(name)s",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8xlarge",
        "topology.kubernetes.io/zone": "zone-%(zone)s",
        "example.com/rack": "rack-%(rack)s",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        **{f"feature.node.kubernetes.io/cpu-cpuid.{n}": "true" for n in range(40)},
    }
    capacity = {"cpu": "96", "memory": "1056313232Ki", "pods": "110", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti"}
    images = [
        {"names": [f"registry.example.com/image-{n}@sha256:{'0123456789abcdef' * 4}"], "sizeBytes": 10**9 + n}
        for n in range(50)
    ]
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "%(time)s",
            "lastTransitionTime": "%(time)s",
            "reason": f"KubeletHas{kind}",
            "message": f"kubelet has checked for {kind} and all is well",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    document = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": "%(name)s",
            "uid": "%(uid)s",
            "resourceVersion": "%(version)s",
            "creationTimestamp": "%(time)s",
            "labels": labels,
            "annotations": {"csi.volume.kubernetes.io/nodeid": '{"csi":"%(uid)s"}'},
            "managedFields": [_managed("kubelet", {"f:metadata": {"f:labels": {f"f:{name}": {} for name in labels}}})],
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": "cloud:///%(uid)s"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity | {"cpu": "95"},
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "%(ip)s"}, {"type": "Hostname", "address": "%(name)s"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"kernelVersion": "6.8.0", "kubeletVersion": "v1.36.2", "osImage": "Linux"},
            "images": images,
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


class Cluster:
    """Writes any object of the cluster on demand; only templates are kept."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.nodes = nodes
        self.pods = pods
        self._daemon = _pod_template("daemon", 1)
        self._apps = [_pod_template("app", 1), _pod_template("app", 2)]
        self._run = _pod_template("run", 1)
        self._node = _node_template()

    def pod(self, number: int, version: int = FIRST_VERSION) -> bytes:
        """Return the JSON of one Pod. One in five of the Pods that belong to no daemon is a member of a run."""
        rest = random.Random(number)
        node = number % self.nodes
        app = number // 50
        if number < self.nodes * DAEMON_PODS_PER_NODE:
            template, app = self._daemon, number // self.nodes
        elif app % 5 == 0:
            template = self._run
        else:
            template = self._apps[app % 2]
        return template % {
            b"name": b"app-%d-%010x-%d" % (app, app, number),
            b"app": b"app-%d" % app,
            b"hash": b"%010x" % app,
            b"owner": b"%08x-0000-4000-8000-000000000000" % app,
            b"rank": b"%d" % (number % 50),
            b"namespace": b"team-%d" % (app % 200),
            b"uid": b"%032x-000" % rest.getrandbits(128),
            b"version": b"%d" % (version + number),
            b"node": b"gpu-%05d" % node,
            b"ip": b"10.%d.%d.%d" % (number >> 16 & 255, number >> 8 & 255, number & 255),
            b"host": b"172.16.%d.%d" % (node >> 8, node & 255),
            b"time": b"2026-11-%02dT%02d:%02d:%02dZ" % _moment(rest),
            b"started": b"2026-11-%02dT%02d:%02d:%02dZ" % _moment(rest),
        }

    def node(self, number: int) -> bytes:
        """Return the JSON of one Node."""
        return self._node % {
            b"name": b"gpu-%05d" % number,
            b"uid": b"%032x-000" % number,
            b"version": b"%d" % (FIRST_VERSION + number),
            b"time": b"2026-11-%02dT%02d:%02d:%02dZ" % _moment(random.Random(number)),
            b"ip": b"172.16.%d.%d" % (number >> 8, number & 255),
            b"zone": b"%d" % (number // 2500),
            b"rack": b"%d" % (number // 16),
        }

    def events(self, number: int, known: int) -> Iterator[bytes]:
        """Return lines of a watch. Of twenty events, two create a Pod, two delete one and sixteen change one. known:
        number of Pods that the watcher knows."""
        first, last = 0, known
        for index in range(number):
            version = FIRST_VERSION + 1_000_000 * (index + 1)
            turn = index % 20
            if turn < 2 or last - first < 10:
                kind, target = b"ADDED", last
                last += 1
            elif turn < 4:
                kind, target = b"DELETED", first
                first += 1
            else:
                kind, target = b"MODIFIED", first + random.Random(index).randrange(last - first)
            yield b'{"type":"%s","object":%s}\n' % (kind, self.pod(target, version))


def _moment(rest: random.Random) -> tuple[int, int, int, int]:
    return rest.randint(1, 20), rest.randint(0, 23), rest.randint(0, 59), rest.randint(0, 59)


class Server:
    """Serves the cluster. Events are written beforehand, so that only their reader is measured."""

    def __init__(self, cluster: Cluster, events: int) -> None:
        self._cluster = cluster
        self._blocks = {
            "busy": _blocks(cluster.events(events, 0)),
            "full": _blocks(cluster.events(events, cluster.pods)),
        }
        self.average_pod_bytes = sum(len(cluster.pod(n)) for n in range(0, cluster.pods, 97)) * 97 // cluster.pods

    def app(self) -> web.Application:
        """Return the web application."""
        app = web.Application()
        for scene in ("busy", "full"):
            app.router.add_get(f"/{scene}/api/v1/{{kind}}", self._get)
            app.router.add_get(f"/{scene}/apis/kajitori.dev/v1alpha1/{{kind}}", self._get)
        return app

    async def _get(self, request: web.Request) -> web.StreamResponse:
        scene, kind = request.path.split("/")[1], request.match_info["kind"]
        if "watch" in request.query:
            return await self._watch(request, self._blocks[scene] if kind == "pods" else [])
        total = {"pods": 0 if scene == "busy" else self._cluster.pods, "nodes": self._cluster.nodes}.get(kind, 0)
        write = self._cluster.node if kind == "nodes" else self._cluster.pod
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0) or total
        end = min(start + limit, total)
        token = b'"continue":"%d",' % end if end < total else b""
        items = b",".join([write(number) for number in range(start, end)])
        meta = b'{%s"resourceVersion":"%d"}' % (token, FIRST_VERSION)
        body = b'{"kind":"List","apiVersion":"v1","metadata":%s,"items":[%s]}' % (meta, items)
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, blocks: list[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for block in blocks:
            await response.write(block)
        await asyncio.Event().wait()
        return response


def _blocks(lines: Iterator[bytes]) -> list[bytes]:
    blocks: list[bytes] = []
    pending: list[bytes] = []
    for line in lines:
        pending.append(line)
        if len(pending) * 5000 > BLOCK_BYTES:
            blocks.append(b"".join(pending))
            pending = []
    return [*blocks, b"".join(pending)]


async def main(nodes: int, pods: int, events: int) -> None:
    """Serve until standard input closes."""
    server = Server(Cluster(nodes, pods), events)
    runner = web.AppRunner(server.app(), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    say({"url": f"http://{host}:{port}", "pod_bytes": server.average_pod_bytes})
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(*(int(argument) for argument in sys.argv[1:4])))
