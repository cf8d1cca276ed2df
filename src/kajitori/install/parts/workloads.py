"""Deployments of Web API, controller and relay, and the CronJob that renews certificates, with the Services and
accounts that belong to each of them."""

from __future__ import annotations

from collections.abc import Sequence

from kajitori.install.parts.gateway import ACCOUNT as GATEWAY_ACCOUNT
from kajitori.install.parts.objects import Object, account, bound, made
from kajitori.install.parts.pods import (
    POLICY_FOLDER,
    RESTRICTED,
    TLS_FOLDER,
    SecretFiles,
    certificate_arguments,
    pod_security,
    probe_spec,
    pull_policy,
    pull_secrets,
    resource_requests,
    tls_mount,
    tls_volume,
    without_empty,
)
from kajitori.install.settings import (
    CLIENT_SECRET_KEY,
    CONTROLLER_PORT,
    HISTORY_PASSWORD_KEY,
    RELAY_PORT,
    SERVER_PORT,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    InstallSettings,
    PartSettings,
)

SIGN_IN_FOLDER, CLIENT_FOLDER = "/etc/kajitori-sign-in", "/etc/kajitori-sign-in-client"
HISTORY_FOLDER = "/etc/kajitori-history"
POLICY = "kajitori"
"""ConfigMap with the policy file, the address registry, and the authorities of the OpenID provider."""
SIGN_IN_AUTHORITY = "sign-in-ca.crt"
"""Key of this ConfigMap with these authorities."""
GATEWAY_AUTHENTICATION = "gateway.yaml"
"""Key of this ConfigMap with the OpenID providers from which the gateway accepts ID tokens."""


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
        "startupProbe": probe_spec(settings, "/healthz", "web", periodSeconds=5, failureThreshold=60),
        "readinessProbe": probe_spec(settings, "/readyz", "web", periodSeconds=5, timeoutSeconds=3),
        "livenessProbe": probe_spec(settings, "/healthz", "web", periodSeconds=20, timeoutSeconds=5),
    }
    files = _sign_in_files(settings) + _history_files(settings)
    container = _container_spec(settings, part, "server", arguments, {"web": SERVER_PORT}, probes, files=files)
    name = "kajitori-server"
    return [
        account(name, namespace, **pull_secrets(settings)),
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
        "readinessProbe": probe_spec(settings, "/readyz", "metrics", periodSeconds=5, timeoutSeconds=5),
        "livenessProbe": probe_spec(
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
        account(name, namespace, **pull_secrets(settings)),
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
        *certificate_arguments(settings),
        *([] if settings.encrypts else ["--insecure-http"]),
        "--log-format=json",
    ]
    probes = {
        "startupProbe": probe_spec(settings, "/healthz", "web", periodSeconds=5, failureThreshold=60),
        "readinessProbe": probe_spec(settings, "/healthz", "web", periodSeconds=5, timeoutSeconds=3),
        "livenessProbe": probe_spec(
            settings, "/healthz", "web", periodSeconds=20, timeoutSeconds=5, failureThreshold=6
        ),
    }
    container = _container_spec(settings, part, "relay", arguments, {"web": RELAY_PORT}, probes, policy=False)
    name = "kajitori-relay"
    return [
        account(name, namespace, **pull_secrets(settings)),
        bound(name, "ClusterRole", name, name, namespace),
        _service_object(settings, "relay", {"web": RELAY_PORT}, "ClusterIP"),
        _disruption_budget(settings, "relay"),
        _deployment_object(settings, part, "relay", container, policy=False),
    ]


def renewal(settings: InstallSettings) -> list[Object]:
    """Return the CronJob that renews the certificates of parts and agents with the installation's own authority, once a
    week."""
    name, namespace = "kajitori-certificates", settings.namespace
    agents = [settings.agents_namespace] if settings.agents.enabled else []
    container = {
        "name": "renew",
        "image": settings.parts_image,
        **pull_policy(settings),
        "command": ["kaji", "upgrade"],
        "args": ["--certificates", f"--namespace={namespace}"],
        "resources": resource_requests("100m", "128Mi", "512Mi"),
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    }
    pod = {
        "serviceAccountName": name,
        "securityContext": pod_security(),
        "restartPolicy": "OnFailure",
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    labels = {"app.kubernetes.io/name": name}
    job = {"backoffLimit": 4, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec = {"schedule": "17 3 * * 1", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}
    return [
        account(name, namespace, **pull_secrets(settings)),
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
        "securityContext": pod_security(),
        "nodeSelector": part.node_selector,
        "tolerations": part.tolerations,
        "topologySpreadConstraints": [spread],
        "containers": [container],
        "volumes": [
            *([{"name": "policy", "configMap": {"name": POLICY}}] if policy else []),
            *tls_volume(settings),
            *({"name": one.volume, "secret": {"secretName": one.secret}} for one in files),
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    spec = {
        "replicas": part.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": without_empty(pod)},
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
        *tls_mount(settings),
        *({"name": one.volume, "mountPath": one.folder, "readOnly": True} for one in files),
        {"name": "scratch", "mountPath": "/tmp"},
    ]
    return {
        "name": name,
        "image": settings.parts_image,
        **pull_policy(settings),
        "command": ["kaji", name],
        "args": [*arguments, *part.arguments],
        **({"envFrom": credentials} if credentials else {}),
        "ports": [{"name": port_name, "containerPort": port} for port_name, port in ports.items()],
        **probes,
        "resources": resource_requests(part.cpu, part.memory, part.memory_limit),
        "securityContext": RESTRICTED,
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
        *certificate_arguments(settings),
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


def _service_object(settings: InstallSettings, name: str, ports: dict[str, int], kind: str) -> Object:
    listed = [{"name": port_name, "port": port, "targetPort": port_name} for port_name, port in ports.items()]
    spec = {"type": kind, "selector": {"app.kubernetes.io/name": f"kajitori-{name}"}, "ports": listed}
    return made("v1", "Service", name, settings.namespace, spec=spec)


def _disruption_budget(settings: InstallSettings, name: str) -> Object:
    selector = {"matchLabels": {"app.kubernetes.io/name": f"kajitori-{name}"}}
    spec = {"maxUnavailable": 1, "selector": selector}
    return made("policy/v1", "PodDisruptionBudget", f"kajitori-{name}", settings.namespace, spec=spec)
