"""The kinds that sequences are made of: where they live, a good object of each, and pieces to change it with.

A piece is merged into an object (or sent alone as a patch); good ones and bad ones are mixed on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c-a", "uid": "00000000-0000-0000-0000-000000000001"}


@dataclass(frozen=True, eq=False)
class Sort:
    """One kind."""

    name: str
    collection: str
    base: Object
    pieces: tuple[Object, ...]
    names: tuple[str, ...] = ("a", "b")
    statuses: tuple[Object | None, ...] = ()
    selectors: tuple[str, ...] = ("metadata.name={p}-x", "metadata.namespace!={p}", "spec.unknown=1")
    custom: bool = False
    scale: bool = False
    weight: int = 4
    watched: bool = True
    table: str = TABLE
    """How a Table is asked for; empty where one shows what is different on purpose."""

    @property
    def cluster_scoped(self) -> bool:
        return "/namespaces/" not in self.collection

    def name_of(self, name: str) -> str:
        """Names of objects outside namespaces are the sequence's own."""
        return f"{{p}}-{name}" if self.cluster_scoped else f"{self.name[0]}-{name}"


META: tuple[Object, ...] = (
    {"labels": {"tier": "a"}},
    {"labels": {"tier": "b", "extra": ""}},
    {"labels": {"tier": None}},
    {"labels": {"tier": "not valid!"}},
    {"labels": {"-bad/key/": "x"}},
    {"labels": {"n": 5}},
    {"labels": None},
    {"annotations": {"note": "something", "kajitori.dev/owner": "ada"}},
    {"annotations": {"note": None}},
    {"annotations": {"Bad Key": "x"}},
    {"annotations": {}},
    {"finalizers": ["kajitori.dev/members"]},
    {"finalizers": ["kajitori.dev/members", "example.com/two"]},
    {"finalizers": ["nodomain"]},
    {"finalizers": []},
    {"finalizers": None},
    {"ownerReferences": [OWNER]},
    {"ownerReferences": [OWNER | {"controller": True, "blockOwnerDeletion": True}]},
    {"ownerReferences": [OWNER | {"uid": ""}]},
    {"ownerReferences": [OWNER | {"controller": True}, OWNER | {"controller": True, "uid": "2"}]},
    {"ownerReferences": []},
    {"uid": "00000000-0000-0000-0000-00000000000f"},
    {"creationTimestamp": None},
    {"creationTimestamp": "2001-02-03T04:05:06Z"},
    {"selfLink": "/somewhere"},
    {"resourceVersion": "0"},
    {"managedFields": []},
    {"managedFields": [{}]},
    {"unknown": 1},
    {"name": "Bad_Name"},
    {"name": "other"},
    {"name": ""},
    {"namespace": "elsewhere"},
    {"generateName": "gen-x-"},
)

_CONTAINER = {"name": "main", "image": "bert:3"}


def _container(**changes: Any) -> Object:
    return {"spec": {"containers": [_CONTAINER | changes]}}


PODS = Sort(
    "pod",
    "/api/v1/namespaces/{p}/pods",
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": ""},
        "spec": {
            "serviceAccountName": "default",
            "containers": [{"name": "main", "image": "bert:3", "resources": {"requests": {"cpu": "500m"}}}],
        },
    },
    (
        _container(image="bert:4"),
        _container(command=["python", "train.py"], args=["--lr", "3e-4"], workingDir="/code"),
        _container(image=""),
        _container(image=" spaced "),
        _container(name="Bad_Name"),
        _container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        _container(env=[{"name": "", "value": "1"}]),
        _container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
        _container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]),
        _container(env=[{"name": "A", "valueFrom": {}}]),
        _container(resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 8}}),
        _container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        _container(resources={"requests": {"nvidia.com/gpu": 1}}),
        _container(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        _container(resources={"limits": {"cpu": "abc"}}),
        _container(resources={"limits": {"cpu": "-1"}}),
        _container(resources={"limits": {"memory": "0.1"}}),
        _container(resources={"limits": {"bogus": "1"}}),
        _container(resources={"requests": {"cpu": 0.5, "memory": "1e3"}}),
        _container(ports=[{"containerPort": 0}]),
        _container(ports=[{"containerPort": 70000, "protocol": "ICMP", "name": "UPPER"}]),
        _container(imagePullPolicy="Sometimes"),
        _container(livenessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}),
        _container(readinessProbe={"httpGet": {"port": "web"}, "tcpSocket": {"port": 1}}),
        _container(readinessProbe={}),
        _container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        _container(volumeMounts=[{"name": "missing", "mountPath": "/data"}, {"name": "missing", "mountPath": "/data"}]),
        _container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        _container(securityContext={"runAsUser": -1, "capabilities": {"add": ["NET_ADMIN"]}}),
        _container(lifecycle={"preStop": {"exec": {"command": []}}}),
        _container(terminationMessagePolicy="Never", terminationMessagePath="relative"),
        _container(stdin=True, tty="yes"),
        _container(bogus={"a": 1}),
        {"spec": {"containers": []}},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": [_CONTAINER, _CONTAINER]}},
        {"spec": {"containers": [_CONTAINER, {"name": "side", "image": "side:1"}]}},
        {"spec": {"initContainers": [{"name": "fetch", "image": "kaji:1", "restartPolicy": "Always"}]}},
        {"spec": {"initContainers": [{"name": "main", "image": "kaji:1"}]}},
        {"spec": {"volumes": [{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}},
        {"spec": {"volumes": [{"name": "data"}]}},
        {"spec": {"volumes": [{"name": "data", "hostPath": {"path": "/x", "type": "Nope"}}]}},
        {
            "spec": {
                "volumes": [{"name": "d", "configMap": {"name": "c"}}, {"name": "d", "secret": {"secretName": "s"}}]
            }
        },
        {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": ""}}]}},
        {"spec": {"volumes": [{"name": "data", "emptyDir": {}, "hostPath": {"path": "/x"}}]}},
        {"spec": {"nodeName": "{p}-a"}},
        {"spec": {"nodeName": "Bad Node"}},
        {"spec": {"nodeSelector": {"zone": "z1"}}},
        {"spec": {"nodeSelector": {"bad key": "z1"}}},
        {"spec": {"restartPolicy": "Never"}},
        {"spec": {"restartPolicy": "Perhaps"}},
        {"spec": {"terminationGracePeriodSeconds": 5}},
        {"spec": {"terminationGracePeriodSeconds": -1}},
        {"spec": {"activeDeadlineSeconds": 100}},
        {"spec": {"activeDeadlineSeconds": 0}},
        {"spec": {"activeDeadlineSeconds": "soon"}},
        {"spec": {"hostNetwork": True}},
        {"spec": {"hostname": "host-1", "subdomain": "runs"}},
        {"spec": {"hostname": "Bad_Host"}},
        {"spec": {"dnsPolicy": "None"}},
        {"spec": {"priorityClassName": "{p}-a"}},
        {"spec": {"priorityClassName": "system-node-critical"}},
        {"spec": {"priorityClassName": "unknown"}},
        {"spec": {"priority": 5}},
        {"spec": {"preemptionPolicy": "Never"}},
        {"spec": {"schedulerName": "other"}},
        {"spec": {"schedulingGates": [{"name": "kajitori.dev/gang"}]}},
        {"spec": {"schedulingGates": []}},
        {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}},
        {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists", "value": "x"}]}},
        {"spec": {"tolerations": [{"key": "gpu", "effect": "Never", "tolerationSeconds": 3}]}},
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["{p}-a"]}]}
                            ]
                        }
                    }
                }
            },
        },
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a", "b"]}]}
                            ]
                        }
                    }
                }
            },
        },
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
        {"spec": {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "No"}]}},
        {"spec": {"securityContext": {"runAsUser": 1000, "fsGroup": 2000}}},
        {"spec": {"securityContext": {"sysctls": [{"name": "bad name", "value": "1"}]}}},
        {"spec": {"imagePullSecrets": [{"name": "pull"}]}},
        {"spec": {"overhead": {"cpu": "1"}}},
        {"spec": {"runtimeClassName": "Not Valid"}},
        {"spec": {"enableServiceLinks": False, "shareProcessNamespace": True}},
        {"spec": {"hostAliases": [{"ip": "127.0.0.300", "hostnames": ["x"]}]}},
        {"spec": {"readinessGates": [{"conditionType": "kajitori.dev/ready"}]}},
        {"spec": {"bogus": 1}},
        {"spec": None},
        {"spec": {}},
        {"spec": []},
        {"status": {"phase": "Running"}},
    ),
    names=("a", "b", "c"),
    statuses=(
        {"phase": "Running", "podIP": "172.16.0.9", "podIPs": [{"ip": "172.16.0.9"}], "hostIP": "172.16.0.1"},
        {"phase": "Succeeded"},
        {"phase": "Failed", "reason": "Evicted", "message": "no memory"},
        {"phase": "Pending"},
        {"phase": "Nonsense"},
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        {"conditions": [{"type": "Ready", "status": "Maybe"}]},
        {"conditions": [{"type": "kajitori.dev/x", "status": "False", "reason": "Because"}]},
        {
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "x",
                    "imageID": "",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ]
        },
        {
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 1,
                    "image": "x",
                    "imageID": "",
                    "state": {"terminated": {"exitCode": 3}},
                }
            ]
        },
        {"containerStatuses": [{"name": "nobody", "ready": True}]},
        {"qosClass": "Guaranteed"},
        {"nominatedNodeName": "{p}-a"},
        {"podIPs": [{"ip": "not an address"}]},
        {"bogus": 1},
        {"phase": None},
    ),
    selectors=(
        "status.phase=Running",
        "spec.nodeName={p}-a",
        "spec.nodeName=",
        "metadata.name=p-a",
        "spec.restartPolicy=Never",
        "status.phase!=Pending,metadata.name!=p-b",
        "spec.schedulerName=default-scheduler",
        "spec.image=x",
        "status.podIP=172.16.0.9",
        "metadata.name",
        "spec.hostNetwork=true",
        "spec.serviceAccountName=other",
        "status.nominatedNodeName={p}-a",
    ),
    weight=16,
)

CONFIG_MAPS = Sort(
    "configmap",
    "/api/v1/namespaces/{p}/configmaps",
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ""}, "data": {"a": "1"}},
    (
        {"data": {"b": "2"}},
        {"data": {"a": None}},
        {"data": {"bad key": "2"}},
        {"data": {"n": 5}},
        {"data": None},
        {"data": {}},
        {"binaryData": {"z": "aGVsbG8="}},
        {"binaryData": {"a": "aGVsbG8="}},
        {"binaryData": {"z": "not base64!"}},
        {"immutable": True},
        {"immutable": False},
        {"immutable": "yes"},
        {"spec": {"x": 1}},
        {"apiVersion": "v2"},
        {"apiVersion": ""},
        {"kind": "Service"},
        {"kind": ""},
    ),
    names=("a", "b", "c"),
    weight=8,
)

SECRETS = Sort(
    "secret",
    "/api/v1/namespaces/{p}/secrets",
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ""}, "data": {"k": "djE="}},
    (
        {"stringData": {"k": "v2"}},
        {"stringData": {"bad key": "v2"}},
        {"data": {"k": "%%%"}},
        {"data": {"k": None}},
        {"type": "kubernetes.io/tls"},
        {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}},
        {"type": "kubernetes.io/basic-auth"},
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}},
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e3s="}},
        {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": "eA=="}},
        {"type": "kubernetes.io/service-account-token"},
        {"type": "example.com/mine"},
        {"immutable": True},
    ),
    selectors=("type=Opaque", "type!=Opaque", "metadata.name=s-a"),
)

SERVICES = Sort(
    "service",
    "/api/v1/namespaces/{p}/services",
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": ""},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    },
    (
        {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True}},
        {"spec": {"clusterIP": "999.1.1.1"}},
        {"spec": {"ports": [{"port": 81, "targetPort": "web", "name": "web"}]}},
        {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
        {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}},
        {"spec": {"ports": [{"port": 0, "protocol": "X"}]}},
        {"spec": {"ports": []}},
        {"spec": {"ports": None}},
        {"spec": {"type": "NodePort"}},
        {"spec": {"type": "ExternalName", "externalName": "example.com"}},
        {"spec": {"type": "LoadBalancer"}},
        {"spec": {"type": "Nope"}},
        {"spec": {"selector": {"bad key": "x"}}},
        {"spec": {"selector": None}},
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"spec": {"sessionAffinity": "Nope"}},
        {"spec": {"internalTrafficPolicy": "Local"}},
        {"spec": {"externalIPs": ["1.2.3"]}},
        {"metadata": {"name": "1-starts-with-digit"}},
        {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
    ),
    statuses=({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, {"loadBalancer": {"ingress": [{"ip": "x"}]}}, {}),
    selectors=("spec.type=NodePort", "spec.clusterIP=None", "metadata.name=s-a"),
)

NODES = Sort(
    "node",
    "/api/v1/nodes",
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "", "labels": {"sea": "{p}"}}},
    (
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": None}},
        {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": "bad key", "effect": "Sometimes"}]}},
        {"spec": {"taints": []}},
        {"spec": {"taints": None}},
        {"spec": {"podCIDR": "172.16.1.0/24", "podCIDRs": ["172.16.1.0/24"]}},
        {"spec": {"podCIDR": "172.16.2.0/24"}},
        {"spec": {"podCIDR": "nonsense"}},
        {"spec": {"providerID": "kaji://one"}},
        {"spec": {"providerID": "kaji://two"}},
        {"spec": {"bogus": True}},
        {"status": {"capacity": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}}},
        {"metadata": {"labels": {"kajitori.dev/gpu-type": "h100"}}},
    ),
    statuses=(
        {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110"}, "allocatable": {"cpu": "7500m"}},
        {"capacity": {"cpu": "minus"}},
        {"capacity": {"cpu": "-8"}},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
        {"conditions": [{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "True"}]},
        {"addresses": [{"type": "InternalIP", "address": "172.16.0.1"}, {"type": "Hostname", "address": "h"}]},
        {"images": [{"names": ["bert:3"], "sizeBytes": 5}]},
        {"nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"}},
        {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}},
    ),
    selectors=("spec.unschedulable=true", "metadata.name={p}-a", "spec.podCIDR=x"),
    names=("a", "b"),
    weight=6,
)

LEASES = Sort(
    "lease",
    "/apis/coordination.k8s.io/v1/namespaces/{p}/leases",
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": ""},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    (
        {"spec": {"holderIdentity": "you", "leaseTransitions": 1}},
        {"spec": {"renewTime": "2026-01-01T00:00:01.5Z"}},
        {"spec": {"renewTime": "2026-01-01T00:00:01Z"}},
        {"spec": {"renewTime": "yesterday"}},
        {"spec": {"renewTime": None}},
        {"spec": {"leaseDurationSeconds": 0}},
        {"spec": {"leaseDurationSeconds": "15"}},
        {"spec": {"leaseDurationSeconds": 15.5}},
        {"spec": {"leaseTransitions": -1}},
        {"spec": {"preferredHolder": "x"}},
        {"spec": {"strategy": "OldestEmulationVersion"}},
        {"spec": None},
    ),
)

NAMESPACES = Sort(
    "namespace",
    "/api/v1/namespaces",
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "", "labels": {"sea": "{p}"}}},
    (
        {"spec": {"finalizers": ["kubernetes", "example.com/hold"]}},
        {"spec": {"finalizers": []}},
        {"spec": {"finalizers": ["nodomain"]}},
        {"metadata": {"labels": {"kubernetes.io/metadata.name": "wrong"}}},
        {"metadata": {"name": "with.dots"}},
        {"status": {"phase": "Terminating"}},
    ),
    statuses=({"phase": "Active"}, {"conditions": [{"type": "NamespaceContentRemaining", "status": "True"}]}),
    selectors=("status.phase=Active", "metadata.name={p}-a", "name={p}-a"),
    weight=3,
)

_REGARDING = {"kind": "Pod", "namespace": "{p}", "name": "p-a", "apiVersion": "v1"}
EVENTS = Sort(
    "event",
    "/api/v1/namespaces/{p}/events",
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": ""},
        "involvedObject": _REGARDING,
        "reason": "Started",
        "message": "it started",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    },
    (
        {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z"},
        {"type": "Bad"},
        {"involvedObject": {"namespace": "other"}},
        {"involvedObject": {"namespace": None}},
        {"involvedObject": {"kind": "Node", "namespace": None, "name": "{p}-a"}},
        {"involvedObject": None},
        {"reason": None},
        {"message": "x" * 1100},
        {"eventTime": "2026-01-01T00:00:00.000000Z"},
        {
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "kajitori.dev/c",
            "reportingInstance": "i",
            "action": "Start",
        },
        {"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
        {"related": {"kind": "Node", "name": "x"}},
        {"firstTimestamp": None},
        {"metadata": {"name": "", "generateName": "bert."}},
    ),
    selectors=(
        "involvedObject.name=p-a",
        "involvedObject.kind=Pod,type=Normal",
        "reason=Started",
        "source=kubelet",
        "reportingComponent=kubelet",
        "involvedObject.uid=",
        "type!=Normal",
    ),
)

NEW_EVENTS = Sort(
    "xevent",
    "/apis/events.k8s.io/v1/namespaces/{p}/events",
    {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": ""},
        "regarding": _REGARDING,
        "reason": "Placed",
        "action": "Placing",
        "note": "on a node",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kajitori.dev/controller",
        "reportingInstance": "one",
    },
    (
        {"eventTime": None},
        {"reportingController": None},
        {"reportingController": "not valid!"},
        {"reportingInstance": ""},
        {"action": ""},
        {"reason": ""},
        {"type": "Odd"},
        {"note": "x" * 1100},
        {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}},
        {"series": {"count": 1}},
        {"regarding": None},
        {"deprecatedCount": 4},
        {"deprecatedSource": {"component": "x"}},
        {"involvedObject": {}},
    ),
    selectors=("regarding.name=p-a", "reason=Placed", "reportingController=kajitori.dev/controller", "type=Normal"),
    weight=3,
)

CLAIMS = Sort(
    "claim",
    "/api/v1/namespaces/{p}/persistentvolumeclaims",
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": ""},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "manual",
        },
    },
    (
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        {"spec": {"resources": {"requests": {"storage": "0"}}}},
        {"spec": {"resources": {"requests": None}}},
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        {"spec": {"accessModes": ["Sometimes"]}},
        {"spec": {"accessModes": []}},
        {"spec": {"storageClassName": "Bad Class"}},
        {"spec": {"storageClassName": ""}},
        {"spec": {"storageClassName": None}},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"volumeName": "{p}-a"}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}},
    ),
    statuses=(
        {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        {"phase": "Odd"},
        {"capacity": {"storage": "-1"}},
    ),
)

VOLUMES = Sort(
    "volume",
    "/api/v1/persistentvolumes",
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "", "labels": {"sea": "{p}"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/x"},
            "storageClassName": "manual",
        },
    },
    (
        {"spec": {"capacity": {"storage": "5Gi"}}},
        {"spec": {"capacity": None}},
        {"spec": {"accessModes": None}},
        {"spec": {"hostPath": None}},
        {"spec": {"hostPath": {"path": "../x"}}},
        {"spec": {"nfs": {"server": "s", "path": "/"}}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        {"spec": {"persistentVolumeReclaimPolicy": "Keep"}},
        {"spec": {"claimRef": {"namespace": "{p}", "name": "c-a"}}},
        {"spec": {"claimRef": None}},
        {"spec": {"volumeMode": "Odd"}},
        {"spec": {"mountOptions": ["ro"]}},
    ),
    statuses=({"phase": "Available"}, {"phase": "Bound"}, {"phase": "Released", "message": "m", "reason": "r"}),
)

QUOTAS = Sort(
    "quota",
    "/api/v1/namespaces/{p}-q/resourcequotas",
    {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": ""}, "spec": {"hard": {"pods": "5"}}},
    (
        {"spec": {"hard": {"requests.cpu": "10", "limits.memory": "5Gi", "requests.nvidia.com/gpu": "8"}}},
        {"spec": {"hard": {"pods": "-1"}}},
        {"spec": {"hard": {"pods": "1500m"}}},
        {"spec": {"hard": {"pods": "many"}}},
        {"spec": {"hard": {"bogus": "1"}}},
        {"spec": {"hard": {"count/runs.kajitori.dev": "3"}}},
        {"spec": {"scopes": ["BestEffort"]}},
        {"spec": {"scopes": ["BestEffort"], "hard": {"requests.cpu": "1"}}},
        {"spec": {"scopes": ["BestEffort", "NotBestEffort"]}},
        {"spec": {"scopes": ["Odd"]}},
        {
            "spec": {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            }
        },
        {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}},
        {"spec": None},
    ),
    weight=2,
    watched=False,
    table="",
)

LIMITS = Sort(
    "limit",
    "/api/v1/namespaces/{p}/limitranges",
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": ""},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1", "memory": "1Gi"}}]},
    },
    (
        {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Container", "min": {"cpu": "600m"}}]}},
        {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "2Gi"}}]}},
        {"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"memory": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "Pod", "default": {"memory": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "Odd"}]}},
        {"spec": {"limits": [{"type": "Container"}, {"type": "Container"}]}},
        {"spec": {"limits": [{"type": "Container", "max": {"bogus": "1"}}]}},
        {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}},
        {"spec": {"limits": None}},
    ),
    names=("a",),
    weight=2,
)

BUDGETS = Sort(
    "budget",
    "/apis/policy/v1/namespaces/{p}/poddisruptionbudgets",
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": ""},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"tier": "a"}}},
    },
    (
        {"spec": {"minAvailable": "50%"}},
        {"spec": {"minAvailable": "150%"}},
        {"spec": {"minAvailable": "half"}},
        {"spec": {"minAvailable": -1}},
        {"spec": {"maxUnavailable": 1}},
        {"spec": {"minAvailable": None, "maxUnavailable": 1}},
        {"spec": {"minAvailable": None}},
        {"spec": {"selector": None}},
        {"spec": {"selector": {}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "Odd"}]}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]}}},
        {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        {"spec": {"unhealthyPodEvictionPolicy": "Odd"}},
    ),
    statuses=(
        {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1},
        {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 9},
        {"disruptionsAllowed": -1},
        {"disruptedPods": {"p-a": "2026-01-01T00:00:00Z"}},
    ),
    names=("a",),
    weight=3,
)

PRIORITIES = Sort(
    "priority",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "", "labels": {"sea": "{p}"}},
        "value": 100,
    },
    (
        {"value": 200},
        {"value": 2000000000},
        {"value": "high"},
        {"value": None},
        {"description": "words"},
        {"preemptionPolicy": "Never"},
        {"preemptionPolicy": "Odd"},
        {"metadata": {"name": "system-mine"}},
    ),
    weight=2,
)

BOATS = Sort(
    "boat",
    "/apis/sea.example/v1/namespaces/{p}/boats",
    {"apiVersion": "sea.example/v1", "kind": "Boat", "metadata": {"name": ""}, "spec": {"size": 3}},
    (
        {"spec": {"size": 0}},
        {"spec": {"size": None}},
        {"spec": {"size": 1.5}},
        {"spec": {"mode": "fast"}},
        {"spec": {"mode": "odd"}},
        {"spec": {"parts": [{"name": "mast"}, {"name": "sail"}]}},
        {"spec": {"parts": [{"name": "mast"}, {"name": "mast"}]}},
        {"spec": {"parts": [{}]}},
        {"spec": {"parts": [{"name": "keel", "bogus": 1}]}},
        {"spec": {"parts": "none"}},
        {"spec": {"bogus": {"deep": 1}}},
        {"spec": None},
        {"status": {"phase": "Afloat"}},
        {"apiVersion": "sea.example/v1alpha1"},
        {"top": 1},
    ),
    statuses=({"phase": "Afloat"}, {"phase": 5}, {"bogus": 1}, None),
    selectors=("spec.mode=fast", "spec.size=3", "metadata.name=b-a"),
    custom=True,
    scale=True,
    weight=8,
)

OLD_BOATS = Sort(
    "boat",
    "/apis/sea.example/v1alpha1/namespaces/{p}/boats",
    {"apiVersion": "sea.example/v1alpha1", "kind": "Boat", "metadata": {"name": ""}, "spec": {"size": 3}},
    BOATS.pieces,
    custom=True,
    weight=2,
)

RUNS = Sort(
    "run",
    "/apis/kajitori.dev/v1alpha1/namespaces/{p}/runs",
    {
        "apiVersion": "kajitori.dev/v1alpha1",
        "kind": "Run",
        "metadata": {"name": ""},
        "spec": {"image": "bert:3", "command": ["python", "train.py"], "resources": {"cpu": 8, "memory": "64Gi"}},
    },
    (
        {"spec": {"replicas": 4}},
        {"spec": {"replicas": "four"}},
        {"spec": {"resources": {"gpu": 8, "gpuType": "h100"}}},
        {"spec": {"resources": {"memory": True}}},
        {"spec": {"resources": {"cpu": "500m"}}},
        {"spec": {"env": {"LR": "3e-4"}}},
        {"spec": {"env": {"LR": 3}}},
        {"spec": {"volumes": [{"name": "data", "path": "/data", "readOnly": True}]}},
        {"spec": {"volumes": "data"}},
        {"spec": {"stopped": True}},
        {"spec": {"resumes": 1}},
        {"spec": {"imge": "typo"}},
        {"spec": {"command": "not a list"}},
        {"spec": None},
        {"status": {"phase": "Running"}},
    ),
    statuses=(
        {"phase": "Queued", "reason": "WaitingForGPU", "message": "needs 32"},
        {"phase": "Running", "members": {"total": 4, "running": 3}},
        {"phase": 5},
        {"attempt": {"number": 1, "nodes": "gpu-[1-4]"}},
        {},
    ),
    custom=True,
    weight=8,
)

SORTS = (
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    NODES,
    LEASES,
    NAMESPACES,
    EVENTS,
    NEW_EVENTS,
    CLAIMS,
    VOLUMES,
    QUOTAS,
    LIMITS,
    BUDGETS,
    PRIORITIES,
    BOATS,
    OLD_BOATS,
    RUNS,
)
