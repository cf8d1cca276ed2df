"""Kinds that Pods use: configuration, secrets, accounts and services."""

from __future__ import annotations

from tests.helpers.differential.catalogue.sample import KindSample

CONFIG_MAPS = KindSample(
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

SECRETS = KindSample(
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

SERVICES = KindSample(
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
    selectors=("spec.type=NodePort", "spec.clusterIP=None", "metadata.name=s-a"),
)
