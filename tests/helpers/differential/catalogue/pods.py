"""Pods, the kind with the most fields."""

from __future__ import annotations

from typing import Any

from tests.helpers.differential.catalogue.sample import KindSample, Object

_CONTAINER = {"name": "main", "image": "bert:3"}


def _container(**changes: Any) -> Object:
    return {"spec": {"containers": [_CONTAINER | changes]}}


PODS = KindSample(
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
