"""The DaemonSet of agents, one on each node, and their account."""

from __future__ import annotations

from kajitori.install.parts.objects import Object, account, made
from kajitori.install.parts.pods import (
    POLICY_FOLDER,
    RESTRICTED,
    TLS_FOLDER,
    SecretFiles,
    certificate_arguments,
    probe_spec,
    pull_policy,
    pull_secrets,
    resource_requests,
    tls_mount,
    tls_volume,
    without_empty,
)
from kajitori.install.settings import AGENT_PORT, METRICS_TOKEN_KEY, InstallSettings

AGENT = "kajitori-agent"
"""Name of the agents' DaemonSet, account and ConfigMap."""
METRICS_TOKEN_FOLDER = "/etc/kajitori-metrics-token"
"""Folder with the token of an agent's metrics."""
HOST_FOLDER = "/host"
"""Folder in which an agent finds parts of the node's own file system."""
DEVICES_FOLDER = "var/lib/kubelet/pod-resources"
"""Folder below HOST_FOLDER with the socket of the kubelet's pod-resources API. On the node it may be elsewhere."""
_TOKEN_FOLDER = "/var/run/secrets/kajitori.dev"


def agents(settings: InstallSettings) -> list[Object]:
    """Return the agents, which count the traffic of each node's Pods and sample the members of runs.

    An agent asks the relay and reports to the Web API, never to the API server: its Pod's token names the node and
    gives no rights there. On the node it writes only its own tables and /var/lib/kajitori-agent. It sees the node's
    processes (hostPID and SYS_PTRACE, for $KAJI_METRICS and the GPUs of a process), and reads control groups and logs.
    It asks the kubelet's pod-resources API for the GPUs of Pods; no call of that API changes anything.
    """
    namespace, name = settings.agents_namespace, AGENT
    pod: Object = {
        "serviceAccountName": name,  # an account without any role
        "automountServiceAccountToken": False,
        "hostNetwork": True,  # it counts at the node's interfaces
        "hostPID": True,  # it samples the processes of members
        "dnsPolicy": "ClusterFirstWithHostNet",
        "priorityClassName": "system-node-critical",
        "nodeSelector": dict(settings.agents.node_selector),
        "tolerations": [{"operator": "Exists"}],
        "containers": [_agent_container(settings)],
        "volumes": _agent_volumes(settings),
    }
    labels = {"app.kubernetes.io/name": name}
    spec = {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": labels}, "spec": without_empty(pod)},
    }
    return [
        account(name, namespace, automountServiceAccountToken=False, **pull_secrets(settings)),
        made("apps/v1", "DaemonSet", name, namespace, spec=spec),
    ]


def _agent_container(settings: InstallSettings) -> Object:
    """Return the container of an agent: command, rights and mounts."""
    limits, files = settings.agents, _metrics_files(settings)
    trust = f"{TLS_FOLDER}/ca.crt"
    arguments = [
        f"--relay={settings.relay_url}",
        f"--relay-token={_TOKEN_FOLDER}/token",
        f"--report={settings.server_url}",
        f"--report-token={_TOKEN_FOLDER}/token",
        *([f"--relay-ca={trust}", f"--report-ca={trust}"] if settings.encrypts else ["--insecure-http"]),
        f"--policy={POLICY_FOLDER}/policy.yaml",
        f"--host-root={HOST_FOLDER}",
        "--host=$(HOST_ADDRESS)",
        f"--port={AGENT_PORT}",
        *certificate_arguments(settings),
        *([f"--metrics-token={METRICS_TOKEN_FOLDER}/{METRICS_TOKEN_KEY}"] if files else []),
        "--log-format=json",
    ]
    return {
        "name": "agent",
        "image": settings.parts_image,
        **pull_policy(settings),
        "command": ["kaji", "agent"],
        "args": arguments,
        "env": [
            {"name": "KAJI_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "HOST_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            # These make NVIDIA's container runtime mount NVML. With another runtime they have no effect.
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "ports": [{"name": "metrics", "containerPort": AGENT_PORT, "hostPort": AGENT_PORT}],
        "livenessProbe": probe_spec(settings, "/healthz", "metrics", initialDelaySeconds=60, periodSeconds=30),
        "resources": resource_requests(limits.cpu, limits.memory, limits.memory_limit),
        "securityContext": {
            **RESTRICTED,
            "runAsUser": 0,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW", "SYS_PTRACE"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/kajitori-agent"},
            {"name": "policy", "mountPath": POLICY_FOLDER, "readOnly": True},
            {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
            {"name": "cgroups", "mountPath": f"{HOST_FOLDER}/sys/fs/cgroup", "readOnly": True},
            {"name": "logs", "mountPath": f"{HOST_FOLDER}/var/log/pods", "readOnly": True},
            {"name": "devices", "mountPath": f"{HOST_FOLDER}/{DEVICES_FOLDER}", "readOnly": True},
            *tls_mount(settings),
            *({"name": one.volume, "mountPath": one.folder, "readOnly": True} for one in files),
        ],
    }


def _agent_volumes(settings: InstallSettings) -> list[Object]:
    """Return the volumes of an agent's Pod: its own files, and those of the node that it reads."""
    token = {"serviceAccountToken": {"path": "token", "audience": "kajitori", "expirationSeconds": 3600}}
    volumes: list[Object] = [
        {"name": "data", "hostPath": {"path": "/var/lib/kajitori-agent", "type": "DirectoryOrCreate"}},
        {"name": "policy", "configMap": {"name": AGENT}},
        {"name": "token", "projected": {"sources": [token]}},
        {"name": "cgroups", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}},
        {"name": "logs", "hostPath": {"path": "/var/log/pods", "type": "DirectoryOrCreate"}},
        # The folder, not the socket: a kubelet that starts again makes a new one.
        {
            "name": "devices",
            "hostPath": {"path": f"{settings.agents.kubelet_folder}/pod-resources", "type": "DirectoryOrCreate"},
        },
    ]
    volumes += tls_volume(settings)
    volumes += ({"name": one.volume, "secret": {"secretName": one.secret}} for one in _metrics_files(settings))
    return volumes


def _metrics_files(settings: InstallSettings) -> list[SecretFiles]:
    secret = settings.agents.metrics_secret
    return [SecretFiles("metrics-token", secret, METRICS_TOKEN_FOLDER)] if secret else []
