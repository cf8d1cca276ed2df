"""Deployments of Web API, controller and relay, the DaemonSet of agents, and the Services and accounts that belong to
each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kajitori.install.parts.gateway import ACCOUNT as GATEWAY_ACCOUNT
from kajitori.install.parts.objects import Object, account, bound, made
from kajitori.install.settings import (
    AGENT_PORT,
    CLIENT_SECRET_KEY,
    CONTROLLER_PORT,
    HISTORY_PASSWORD_KEY,
    METRICS_TOKEN_KEY,
    RELAY_PORT,
    SERVER_PORT,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    TLS_SECRET,
    InstallSettings,
    PartSettings,
)

POLICY_FOLDER = "/etc/kajitori"
TLS_FOLDER = "/etc/kajitori-tls"
SIGN_IN_FOLDER, CLIENT_FOLDER = "/etc/kajitori-sign-in", "/etc/kajitori-sign-in-client"
HISTORY_FOLDER = "/etc/kajitori-history"
METRICS_TOKEN_FOLDER = "/etc/kajitori-metrics-token"
"""Folder with the token of an agent's metrics."""
POLICY = "kajitori"
"""ConfigMap with the policy file, the address registry, and the authorities of the OpenID provider."""
SIGN_IN_AUTHORITY = "sign-in-ca.crt"
"""Key of this ConfigMap with these authorities."""
GATEWAY_AUTHENTICATION = "gateway.yaml"
"""Key of this ConfigMap with the OpenID providers from which the gateway accepts ID tokens."""
HOST_FOLDER = "/host"
"""Folder in which an agent finds parts of the node's own file system."""
DEVICES_FOLDER = "var/lib/kubelet/pod-resources"
"""Folder below HOST_FOLDER with the socket of the kubelet's pod-resources API. On the node it may be elsewhere."""
_TOKEN_FOLDER = "/var/run/secrets/kajitori.dev"
AGENT = "kajitori-agent"
"""Name of the agents' DaemonSet, account and ConfigMap."""
_USER = 65532
_RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


class SecretFiles(NamedTuple):
    """A Secret with its keys mounted as files of a container."""

    volume: str
    secret: str
    folder: str


def server(settings: InstallSettings) -> list[Object]:
    """Return the Web API: it answers `kaji`, agents and members of runs.

    It has no state, so any number may run; each holds all Nodes, Pods and Runs in memory (about 4 kB per Pod). It
    listens when it has read the cluster, which may take a while if there are many Pods.
    """
    part, namespace = settings.server, settings.namespace
    arguments = [
        "--host=0.0.0.0",
        f"--port={SERVER_PORT}",
        *_policy_arguments(settings),
        f"--networks={POLICY_FOLDER}/networks.yaml",
        f"--namespace={part.namespace}",
        f"--controller-namespace={namespace}",
        f"--agent-account={settings.agent_account}",
        *_sign_in_arguments(settings),
        *_gateway_arguments(settings),
        *([] if settings.encrypts else ["--insecure-http"]),
        "--log-format=json",
    ]
    probes = {
        "startupProbe": _probe_spec(settings, "/healthz", "web", periodSeconds=5, failureThreshold=60),
        "readinessProbe": _probe_spec(settings, "/readyz", "web", periodSeconds=5, timeoutSeconds=3),
        "livenessProbe": _probe_spec(settings, "/healthz", "web", periodSeconds=20, timeoutSeconds=5),
    }
    files = _sign_in_files(settings) + _history_files(settings)
    container = _container_spec(settings, part, "server", arguments, {"web": SERVER_PORT}, probes, files=files)
    name = "kajitori-server"
    return [
        account(name, namespace, **_pull_secrets(settings)),
        bound(name, "ClusterRole", name, name, namespace),
        bound("kajitori-server-tickets", "Role", "kajitori-tickets", name, namespace, namespace),
        bound("kajitori-server-channels", "Role", "kajitori-channels", name, namespace, settings.messages_namespace),
        _service_object(settings, "server", {"web": SERVER_PORT}, part.service),
        _disruption_budget(settings, "server"),
        _deployment_object(settings, part, "server", container, priority="system-cluster-critical", files=files),
    ]


def controller(settings: InstallSettings) -> list[Object]:
    """Return the controllers, which plan, start and restart runs. One leads; the followers hold the same state in
    memory.

    A controller ends if it cannot continue, or if its event loop hangs for two minutes. Kubernetes then starts it
    again.
    """
    part, namespace = settings.controller, settings.namespace
    arguments = [
        *_policy_arguments(settings),
        f"--namespace={namespace}",
        "--identity=$(POD_NAME)",
        "--host=0.0.0.0",
        f"--port={CONTROLLER_PORT}",
        "--log-format=json",
    ]
    probes = {
        "readinessProbe": _probe_spec(settings, "/readyz", "metrics", periodSeconds=5, timeoutSeconds=5),
        "livenessProbe": _probe_spec(
            settings, "/healthz", "metrics", periodSeconds=20, timeoutSeconds=10, failureThreshold=6
        ),
    }
    files = _history_files(settings)
    container = _container_spec(
        settings, part, "controller", arguments, {"metrics": CONTROLLER_PORT}, probes, files=files
    )
    container["env"] = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    name = "kajitori-controller"
    return [
        account(name, namespace, **_pull_secrets(settings)),
        bound(name, "ClusterRole", name, name, namespace),
        bound("kajitori-controller-leader", "Role", "kajitori-leader", name, namespace, namespace),
        bound("kajitori-messenger", "Role", "kajitori-messenger", name, namespace, settings.messages_namespace),
        _disruption_budget(settings, "controller"),
        _deployment_object(settings, part, "controller", container, priority="system-cluster-critical", files=files),
    ]


def relay(settings: InstallSettings) -> list[Object]:
    """Return the relay, which tells agents about the Pods of their nodes, so that the API server does not have one
    watch per node. Each holds all Pods in memory (about 4 kB per Pod)."""
    part, namespace = settings.relay, settings.namespace
    arguments = [
        "--host=0.0.0.0",
        f"--port={RELAY_PORT}",
        f"--agent-account={settings.agent_account}",
        *_certificate_arguments(settings),
        *([] if settings.encrypts else ["--insecure-http"]),
        "--log-format=json",
    ]
    probes = {
        "startupProbe": _probe_spec(settings, "/healthz", "web", periodSeconds=5, failureThreshold=60),
        "readinessProbe": _probe_spec(settings, "/healthz", "web", periodSeconds=5, timeoutSeconds=3),
        "livenessProbe": _probe_spec(
            settings, "/healthz", "web", periodSeconds=20, timeoutSeconds=5, failureThreshold=6
        ),
    }
    container = _container_spec(settings, part, "relay", arguments, {"web": RELAY_PORT}, probes, policy=False)
    name = "kajitori-relay"
    return [
        account(name, namespace, **_pull_secrets(settings)),
        bound(name, "ClusterRole", name, name, namespace),
        _service_object(settings, "relay", {"web": RELAY_PORT}, "ClusterIP"),
        _disruption_budget(settings, "relay"),
        _deployment_object(settings, part, "relay", container, policy=False),
    ]


def agent(settings: InstallSettings) -> list[Object]:
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
        "template": {"metadata": {"labels": labels}, "spec": _without_empty(pod)},
    }
    return [
        account(name, namespace, automountServiceAccountToken=False, **_pull_secrets(settings)),
        made("apps/v1", "DaemonSet", name, namespace, spec=spec),
    ]


def _agent_container(settings: InstallSettings) -> Object:
    """Return the container of an agent: command, rights and mounts."""
    agents, files = settings.agents, _metrics_files(settings)
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
        *_certificate_arguments(settings),
        *([f"--metrics-token={METRICS_TOKEN_FOLDER}/{METRICS_TOKEN_KEY}"] if files else []),
        "--log-format=json",
    ]
    return {
        "name": "agent",
        "image": settings.parts_image,
        **_pull_policy(settings),
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
        "livenessProbe": _probe_spec(settings, "/healthz", "metrics", initialDelaySeconds=60, periodSeconds=30),
        "resources": _resource_requests(agents.cpu, agents.memory, agents.memory_limit),
        "securityContext": {
            **_RESTRICTED,
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
            *_tls_mount(settings),
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
    volumes += _tls_volume(settings)
    volumes += ({"name": one.volume, "secret": {"secretName": one.secret}} for one in _metrics_files(settings))
    return volumes


def renewal(settings: InstallSettings) -> list[Object]:
    """Return the CronJob that renews the certificates of parts and agents with the installation's own authority, once a
    week."""
    name, namespace = "kajitori-certificates", settings.namespace
    agents = [settings.agents_namespace] if settings.agents.enabled else []
    container = {
        "name": "renew",
        "image": settings.parts_image,
        **_pull_policy(settings),
        "command": ["kaji", "upgrade"],
        "args": ["--certificates", f"--namespace={namespace}"],
        "resources": _resource_requests("100m", "128Mi", "512Mi"),
        "securityContext": _RESTRICTED,
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    }
    pod = {
        "serviceAccountName": name,
        "securityContext": _pod_security(),
        "restartPolicy": "OnFailure",
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    labels = {"app.kubernetes.io/name": name}
    job = {"backoffLimit": 4, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec = {"schedule": "17 3 * * 1", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}
    return [
        account(name, namespace, **_pull_secrets(settings)),
        *(bound(name, "Role", name, name, namespace, space) for space in (namespace, *agents)),
        made("batch/v1", "CronJob", name, namespace, spec=spec),
    ]


# ---------------------------------------------------------------------------------------------- shared by the parts


def _deployment_object(
    settings: InstallSettings,
    part: PartSettings,
    name: str,
    container: Object,
    *,
    priority: str = "",
    policy: bool = True,
    files: Sequence[SecretFiles] = (),
) -> Object:
    labels = {"app.kubernetes.io/name": f"kajitori-{name}"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    pod: Object = {
        "serviceAccountName": f"kajitori-{name}",
        "priorityClassName": priority,
        "securityContext": _pod_security(),
        "nodeSelector": part.node_selector,
        "tolerations": part.tolerations,
        "topologySpreadConstraints": [spread],
        "containers": [container],
        "volumes": [
            *([{"name": "policy", "configMap": {"name": POLICY}}] if policy else []),
            *_tls_volume(settings),
            *({"name": one.volume, "secret": {"secretName": one.secret}} for one in files),
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    spec = {
        "replicas": part.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _without_empty(pod)},
    }
    return made("apps/v1", "Deployment", f"kajitori-{name}", settings.namespace, spec=spec)


def _container_spec(
    settings: InstallSettings,
    part: PartSettings,
    name: str,
    arguments: list[str],
    ports: dict[str, int],
    probes: Object,
    *,
    policy: bool = True,
    files: Sequence[SecretFiles] = (),
) -> Object:
    credentials = [{"secretRef": {"name": settings.store.secret}}] if policy and settings.store.secret else []
    mounts: list[Object] = [
        *([{"name": "policy", "mountPath": POLICY_FOLDER, "readOnly": True}] if policy else []),
        *_tls_mount(settings),
        *({"name": one.volume, "mountPath": one.folder, "readOnly": True} for one in files),
        {"name": "scratch", "mountPath": "/tmp"},
    ]
    return {
        "name": name,
        "image": settings.parts_image,
        **_pull_policy(settings),
        "command": ["kaji", name],
        "args": [*arguments, *part.arguments],
        **({"envFrom": credentials} if credentials else {}),
        "ports": [{"name": port_name, "containerPort": port} for port_name, port in ports.items()],
        **probes,
        "resources": _resource_requests(part.cpu, part.memory, part.memory_limit),
        "securityContext": _RESTRICTED,
        "volumeMounts": mounts,
    }


def _policy_arguments(settings: InstallSettings) -> list[str]:
    """Return the arguments about policy. Web API and controller share them, since their decisions must agree."""
    authority = [f"--member-ca={TLS_FOLDER}/ca.crt"] if settings.encrypts else []
    return [
        f"--policy={POLICY_FOLDER}/policy.yaml",
        f"--member-image={settings.members_image}",
        f"--member-server={settings.server_url}",
        *authority,
        *_certificate_arguments(settings),
        *([f"--blobs={settings.store.url}"] if settings.store.url else []),
        *([f"--history={settings.history.url}"] if settings.history.url else []),
        *([f"--history-password-file={HISTORY_FOLDER}/{HISTORY_PASSWORD_KEY}"] if settings.history.secret else []),
    ]


def _sign_in_arguments(settings: InstallSettings) -> list[str]:
    """Return the Web API's arguments about the OpenID provider and about sessions of browsers."""
    sign_in = settings.sign_in
    found = [f"--sign-in-client-id={sign_in.client_id}", f"--sign-in-scopes={sign_in.scopes}"]
    if sign_in.issuer:
        found += [f"--sign-in-issuer={sign_in.issuer}", f"--sign-in-key={SIGN_IN_FOLDER}/{SIGN_IN_KEY}"]
    if sign_in.url:
        found.append(f"--sign-in-url={sign_in.url}")
    if sign_in.programs_url:
        found.append(f"--programs-url={sign_in.programs_url}")
    if sign_in.ca:
        found.append(f"--sign-in-ca={POLICY_FOLDER}/{SIGN_IN_AUTHORITY}")
    if sign_in.client_secret:
        found.append(f"--sign-in-secret={CLIENT_FOLDER}/{CLIENT_SECRET_KEY}")
    return found


def _gateway_arguments(settings: InstallSettings) -> list[str]:
    if not settings.gateway.enabled:
        return []
    account = f"--gateway-account={settings.namespace}/{GATEWAY_ACCOUNT}"
    return [account, f"--gateway-authentication={POLICY_FOLDER}/{GATEWAY_AUTHENTICATION}"]


def _sign_in_files(settings: InstallSettings) -> list[SecretFiles]:
    sign_in = settings.sign_in
    found = [SecretFiles("sign-in", SIGN_IN_SECRET, SIGN_IN_FOLDER)] if sign_in.issuer else []
    if sign_in.client_secret:
        found.append(SecretFiles("sign-in-client", sign_in.client_secret, CLIENT_FOLDER))
    return found


def _history_files(settings: InstallSettings) -> list[SecretFiles]:
    secret = settings.history.secret
    return [SecretFiles("history", secret, HISTORY_FOLDER)] if secret else []


def _metrics_files(settings: InstallSettings) -> list[SecretFiles]:
    secret = settings.agents.metrics_secret
    return [SecretFiles("metrics-token", secret, METRICS_TOKEN_FOLDER)] if secret else []


def _certificate_arguments(settings: InstallSettings) -> list[str]:
    if not settings.encrypts:
        return []
    return [f"--tls-cert={TLS_FOLDER}/tls.crt", f"--tls-key={TLS_FOLDER}/tls.key"]


def _tls_mount(settings: InstallSettings) -> list[Object]:
    return [{"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}] if settings.encrypts else []


def _tls_volume(settings: InstallSettings) -> list[Object]:
    return [{"name": "tls", "secret": {"secretName": TLS_SECRET}}] if settings.encrypts else []


def _probe_spec(settings: InstallSettings, path: str, port: str, **fields: int) -> Object:
    scheme = {"scheme": "HTTPS"} if settings.encrypts else {}
    return {"httpGet": {"path": path, "port": port, **scheme}, **fields}


def _service_object(settings: InstallSettings, name: str, ports: dict[str, int], kind: str) -> Object:
    listed = [{"name": port_name, "port": port, "targetPort": port_name} for port_name, port in ports.items()]
    spec = {"type": kind, "selector": {"app.kubernetes.io/name": f"kajitori-{name}"}, "ports": listed}
    return made("v1", "Service", name, settings.namespace, spec=spec)


def _disruption_budget(settings: InstallSettings, name: str) -> Object:
    selector = {"matchLabels": {"app.kubernetes.io/name": f"kajitori-{name}"}}
    spec = {"maxUnavailable": 1, "selector": selector}
    return made("policy/v1", "PodDisruptionBudget", f"kajitori-{name}", settings.namespace, spec=spec)


def _resource_requests(cpu: str, memory: str, memory_limit: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


def _pod_security() -> Object:
    # Secrets are readable by the group, since the user that reads them is not root.
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _pull_secrets(settings: InstallSettings) -> Object:
    secrets = [{"name": name} for name in settings.images.pull_secrets]
    return {"imagePullSecrets": secrets} if secrets else {}


def _pull_policy(settings: InstallSettings) -> Object:
    return {"imagePullPolicy": settings.images.pull_policy} if settings.images.pull_policy else {}


def _without_empty(pod: dict[str, Any]) -> Object:
    return {key: value for key, value in pod.items() if value not in ("", {}, [])}
