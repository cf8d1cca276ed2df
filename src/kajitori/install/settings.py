"""Settings of an installation: the file of `kaji install --settings`, and the values of the Helm chart."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kajitori import __version__
from kajitori.configuration.option_faults import history_faults
from kajitori.configuration.sign_in import SCOPES, program_faults
from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Digest, DnsLabel, LabelKey, LabelValue, ObjectName, ServerUrl
from kajitori.core.documents.files import parse_document
from kajitori.core.kubernetes import texts
from kajitori.core.naming import names
from kajitori.errors import Fault, FieldError

TLS_SECRET = "kajitori-tls"
"""Secret with `tls.crt`, `tls.key` and `ca.crt`: in the one namespace of the parts, in the other of agents."""
CERTIFICATE_KEYS = ("tls.crt", "tls.key", "ca.crt")
"""Its keys."""
CA_SECRET = "kajitori-ca"
"""Secret with the key of the installation's own authority."""
SIGN_IN_SECRET, SIGN_IN_KEY = "kajitori-sign-in", "key"
"""Secret, and its key with the random bytes that encrypt the cookies of browsers."""
CLIENT_SECRET_KEY, HISTORY_PASSWORD_KEY = "client-secret", "password"
"""Keys of the Secrets that `signIn.clientSecret` and `history.secret` name."""
METRICS_TOKEN_KEY = "token"
"""Key of the Secret that `agents.metricsSecret` names."""
RECORD = "kajitori-install"
"""ConfigMap in which an installation keeps its version, its settings, and the list of applied objects."""
SERVER_PORT, RELAY_PORT, CONTROLLER_PORT, AGENT_PORT = 8600, 8601, 8602, 9465

_GATEWAY_PREFIX = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]*[:/#]")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTP]i?)?", re.ASCII)


def _checked_quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise FieldError(f"{text!r:.80} is not an amount", "write a number such as 2, 500m or 4Gi")
    return text


def _host_name(text: str) -> str:
    if texts.dns_subdomain(text.removeprefix("*.")) and not re.fullmatch(r"[0-9A-Fa-f.:]+", text):
        raise FieldError(f"{text!r:.80} is not a host name or address", "write a name such as kaji.example.org")
    return text


Quantity = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if isinstance(given, int) else given),
    AfterValidator(_checked_quantity),
]
HostName = Annotated[str, AfterValidator(_host_name)]


class ImageSettings(Document):
    """Sources of the two images."""

    prefix: str = ""
    """Registry and path before both names, for example registry.example.org/ml. Empty: the names are complete."""
    parts: str = f"kajitori:{__version__}"
    """Image of Web API, controller, relay and agents (deploy/Dockerfile)."""
    members: str = f"kajitori-member:{__version__}"
    """Image of members' first step (deploy/image/Dockerfile)."""
    parts_digest: Digest | None = None
    """Digest of the former, sha256:…. It replaces the tag."""
    members_digest: Digest | None = None
    """Digest of the latter."""
    pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Secrets with the registry's credentials, in both namespaces of the installation. Members' Pods get theirs from
    the policy's `images.pullSecrets`."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """Empty: Kubernetes' default."""


class Issuer(Document):
    """An issuer of cert-manager."""

    name: ObjectName
    """Its name."""
    kind: Literal["ClusterIssuer", "Issuer"] = "ClusterIssuer"
    """An Issuer must exist in both namespaces of the installation."""


class TlsSettings(Document):
    """Certificates of the parts."""

    certificates: Literal["own", "certManager", "given", "none"] = "own"
    """own: `kaji install` makes an authority, a certificate of the parts and one of the agents, and a CronJob renews
    them. certManager: cert-manager issues the certificates. given: the Secret kajitori-tls (tls.crt, tls.key, ca.crt)
    exists in both namespaces; that of agents needs a certificate of its own, since its key is on every node. none:
    plain HTTP, for a network that encrypts by itself."""
    issuer: Issuer | None = None
    """For certManager: who issues the certificates."""
    names: list[HostName] = Field(default_factory=list)
    """Further names and addresses of the certificate, under which people reach the Web API from outside."""

    @model_validator(mode="after")
    def _issuer_of_cert_manager(self) -> TlsSettings:
        if (self.certificates == "certManager") != (self.issuer is not None):
            raise FieldError("certificates: certManager and issuer belong together", "set both, or neither")
        return self


class PartSettings(Document):
    """Size and place of one part."""

    replicas: int = Field(default=2, ge=1, le=50)
    """Number of Pods. One of several may be away."""
    cpu: Quantity = "500m"
    """Requested cores."""
    memory: Quantity = "1Gi"
    """Requested memory."""
    memory_limit: Quantity = "4Gi"
    """Memory at which a Pod is restarted."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels of the nodes on which it may run."""
    tolerations: list[dict[str, Any]] = Field(default_factory=list)
    """Taints of nodes that it ignores, as in a Pod."""
    arguments: list[str] = Field(default_factory=list)
    """Further options of the command, for example --limit=connections=4096."""


class ServerSettings(PartSettings):
    """The Web API."""

    service: Literal["ClusterIP", "LoadBalancer", "NodePort"] = "ClusterIP"
    """Type of its Service."""
    namespace: DnsLabel = "default"
    """Namespace of runs that name none."""
    url: ServerUrl | None = None
    """URL under which members and agents reach the Web API; left out: that of its Service."""


class ControllerSettings(PartSettings):
    """The controller."""

    cpu: Quantity = "1"


class RelaySettings(PartSettings):
    """The relay between agents and the API server."""

    cpu: Quantity = "200m"
    memory: Quantity = "512Mi"
    memory_limit: Quantity = "2Gi"


class AgentSettings(Document):
    """Agents that count the traffic of each node's Pods, and the relay that they ask."""

    enabled: bool = True
    """Whether there are agents and relays. Agents need Kubernetes 1.32."""
    cpu: Quantity = "10m"
    """Requested cores of each agent."""
    memory: Quantity = "64Mi"
    """Requested memory of each agent."""
    memory_limit: Quantity = "128Mi"
    """Memory at which an agent is restarted."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels of the nodes that have an agent. Empty: all nodes."""
    kubelet_folder: str = Field(default="/var/lib/kubelet", pattern=r"^(/[A-Za-z0-9._-]+)+$")
    """The kubelet's own folder on the nodes (its `--root-dir`), such as /var/lib/k0s/kubelet. Agents ask it at the
    socket in `pod-resources` there which GPUs a Pod has."""
    policy: dict[str, Any] = Field(default_factory=lambda: {"traffic": {"every": "15s"}})
    """Policy of agents: the section `traffic` of your policy file."""
    relay_url: ServerUrl | None = None
    """URL of the relay; left out: that of its Service."""
    metrics_secret: ObjectName | None = None
    """Secret in the agents' namespace whose key `token` Prometheus has to send to read agents' metrics. Left out:
    anybody who reaches the port may read them."""


class StoreSettings(Document):
    """Store of code, kept logs and results."""

    url: str = ""
    """s3://…, az://… or gs://…. Empty: no uploads, and logs disappear with their Pods."""
    secret: ObjectName | None = None
    """Secret in the parts' namespace, whose keys become variables of Web API and controller: the store's credentials
    (AWS_ACCESS_KEY_ID and so on)."""


class HistorySettings(Document):
    """Database of ended runs, usage and audit."""

    url: str = ""
    """postgresql://USER@HOST/DATABASE, without the password. Empty: no history."""
    secret: ObjectName | None = None
    """Secret in the parts' namespace; its key `password` is the password. Web API and controller read it from a file
    when they start. Left out: KAJI_HISTORY_PASSWORD in the Secret of `store.secret`."""


class SignInSettings(Document):
    """OpenID provider at which people sign in with `kaji login`. kube-apiserver must accept its tokens."""

    issuer: str = ""
    """Its URL. Empty: people bring tokens of their own."""
    client_id: str = "kaji"
    """Name of the client at the provider."""
    scopes: str = SCOPES
    """Scopes that are requested from the provider. Some providers refuse `groups`."""
    url: ServerUrl | None = None
    """URL of the Web API for browsers. Left out: the address that a browser asked for. The redirect URI at the provider
    is this URL with /sign-in/callback behind it."""
    programs_url: str | None = None
    """Address at which browsers open programs of runs that have web pages, such as notebooks. With
    https://*.runs.example.org each program has an origin of its own. DNS, certificate and proxy must lead this name to
    the Web API as well. Left out: browsers open no programs."""
    ca: str = ""
    """Authorities (PEM) that signed the provider's certificate; empty: those of the image. Web API reads it when it
    starts."""
    client_secret: ObjectName | None = None
    """Secret in the parts' namespace, for providers that demand one from servers; its key `client-secret` is sent to
    the provider when a browser signs in."""


class MonitoringSettings(Document):
    """Alert rules for Prometheus, and dashboards for Grafana."""

    alerts: Literal["auto", "prometheusRule", "configMap", "none"] = "auto"
    """prometheusRule: an object that Prometheus Operator reads. configMap: a ConfigMap with the same as a rules file.
    auto: the former if the cluster has that kind, else the latter."""
    monitors: bool = True
    """Whether PodMonitors tell Prometheus Operator to read the metrics of Web API, controllers and agents. They exist
    only with alerts: prometheusRule."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Further labels of the PrometheusRule and the PodMonitors, by which your Prometheus selects them, for example
    release: prometheus."""
    runbook_url: str = "docs/operate/alerts.md"
    """URL of the page about alerts, if you serve this documentation; each alert leads to its section."""
    dashboards: bool = True
    """Whether there is a ConfigMap with the dashboards, with the label grafana_dashboard for Grafana's sidecar."""


class GatewaySettings(Document):
    """The gateway, for clusters with an API server that cannot use the provider of `signIn`.

    The Web API then verifies ID tokens itself and impersonates. Read SECURITY.md first.
    """

    enabled: bool = False
    """Whether there is one."""
    prefix: str = "oidc:"
    """Stands before the names of users and groups from ID tokens, so that these cannot equal other names."""
    username_claim: str = "sub"
    """Claim that names the user."""
    groups_claim: str = "groups"
    """Claim with the user's groups."""
    groups: list[str] = Field(default_factory=list)
    """Groups, with the prefix, that the gateway may impersonate besides those of the policy's teams, for example the
    operators'. Other groups of an ID token are ignored."""
    users: list[str] = Field(default_factory=list)
    """The only users, with the prefix, that the gateway may impersonate. Empty: every user name."""


class InstallSettings(Document):
    """Everything that an installation can vary. Each field has a default."""

    namespace: DnsLabel = names.NAMESPACE
    """Namespace of the parts. Agents are in a second one, with -agents behind its name, because they need their node's
    network and Kubernetes' strictest Pod security standard holds in the first."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """Kubernetes' Pod security standard of the parts' namespace. The parts meet the strictest one; node tests, which
    run there unless the policy's `preflight.namespace` names another namespace, may need more."""
    images: ImageSettings = ImageSettings()
    tls: TlsSettings = TlsSettings()
    server: ServerSettings = ServerSettings()
    controller: ControllerSettings = ControllerSettings()
    relay: RelaySettings = RelaySettings()
    agents: AgentSettings = AgentSettings()
    store: StoreSettings = StoreSettings()
    history: HistorySettings = HistorySettings()
    sign_in: SignInSettings = SignInSettings()
    gateway: GatewaySettings = GatewaySettings()
    monitoring_namespace: DnsLabel = "monitoring"
    """Namespace of the Prometheus that reads the controllers' metrics."""
    monitoring: MonitoringSettings = MonitoringSettings()
    flow_control: bool = True
    """Whether the parts get a share of the API server of their own (API Priority and Fairness)."""
    admission_policies: bool = True
    """Whether validating admission policies protect the owner of a run and the labels of its Pods. They need Kubernetes
    1.30."""

    @property
    def messages_namespace(self) -> str:
        """Namespace of people's channels of messages, and of outboxes."""
        return names.messages_namespace(self.namespace)

    @property
    def agents_namespace(self) -> str:
        """Namespace of agents."""
        return f"{self.namespace}-agents"

    @property
    def agent_account(self) -> str:
        """Service account of agents, `namespace/name`."""
        return f"{self.agents_namespace}/kajitori-agent"

    @property
    def encrypts(self) -> bool:
        """Whether parts and agents serve TLS."""
        return self.tls.certificates != "none"

    @property
    def server_url(self) -> str:
        """URL under which members and agents reach the Web API."""
        return self.server.url or self._service_url("server", SERVER_PORT)

    @property
    def relay_url(self) -> str:
        """URL under which agents reach the relay."""
        return self.agents.relay_url or self._service_url("relay", RELAY_PORT)

    @property
    def parts_image(self) -> str:
        """Complete name of the parts' image."""
        return _full_image_name(self.images.prefix, self.images.parts, self.images.parts_digest)

    @property
    def members_image(self) -> str:
        """Complete name of the image of members' first step."""
        return _full_image_name(self.images.prefix, self.images.members, self.images.members_digest)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """Names of the parts' certificate: those of the Services, of this machine for `kubectl port-forward`, and the
        settings' own."""
        services = [f"{name}.{self.namespace}" for name in ("server", "relay", "controller")]
        inside = [f"{name}{end}" for name in services for end in ("", ".svc", ".svc.cluster.local")]
        return tuple(dict.fromkeys((*inside, "localhost", "127.0.0.1", *self.tls.names)))

    @property
    def agents_certificate_names(self) -> tuple[str, ...]:
        """Names of the certificate that all agents share. No other part has these names, because its key is on every
        node. Readers of metrics have to be told this name, since they reach agents by the addresses of nodes."""
        return (f"agent.{self.agents_namespace}",)

    def _service_url(self, service: str, port: int) -> str:
        return f"{'https' if self.encrypts else 'http'}://{service}.{self.namespace}.svc:{port}"


def parse_settings(text: str | bytes) -> InstallSettings:
    """Read settings from YAML. An empty text gives the defaults. Raises InvalidInput with all faults at once."""
    return parse_document(InstallSettings, text, "settings", "images, tls and server", faults_of)


def faults_of(settings: InstallSettings, unread: Collection[str] = ()) -> Iterator[Fault]:
    """Yield contradictions. No fault repeats a password. `unread` names sections that could not be read, and that
    `settings` has the defaults of: what depends on them is not known."""
    yield from _gateway_faults(settings, unread)
    yield from _agent_faults(settings)
    yield from _history_faults(settings)
    yield from _sign_in_faults(settings)


def _agent_faults(settings: InstallSettings) -> Iterator[Fault]:
    if settings.agents.metrics_secret is not None and not settings.encrypts:
        message = "a token would cross the network in plain text: agents have no certificate"
        hint = "leave out tls.certificates: none, or leave this out and let only Prometheus reach the port"
        yield Fault("agents.metricsSecret", message, settings.agents.metrics_secret, hint)


def _history_faults(settings: InstallSettings) -> Iterator[Fault]:
    history = settings.history
    for fault in history_faults(history.url or None, None):
        hint = "put it into the key `password` of a Secret, and name that as history.secret"
        yield Fault("history.url", fault.message, fault.value, fault.hint if fault.value else hint)
    if history.url and urlsplit(history.url).scheme == "sqlite":
        hint = "write postgresql://user@host/database"
        yield Fault("history.url", "Pods have no folder that all of them share", history.url, hint)
    if history.secret is not None and not history.url:
        yield Fault("history.secret", "a password without a database", history.secret, "set history.url, too")


def _sign_in_faults(settings: InstallSettings) -> Iterator[Fault]:
    sign_in = settings.sign_in
    if not sign_in.issuer:
        programs = ("programsUrl", sign_in.programs_url)
        for name, value in (
            ("url", sign_in.url),
            programs,
            ("ca", sign_in.ca),
            ("clientSecret", sign_in.client_secret),
        ):
            if value:
                yield Fault(f"signIn.{name}", "there is no provider", hint="set signIn.issuer, too")
        return
    if urlsplit(sign_in.issuer).scheme != "https" or not urlsplit(sign_in.issuer).hostname:
        hint = "write the https URL that is `iss` in its tokens, for example https://login.example.org"
        yield Fault("signIn.issuer", f"{sign_in.issuer!r:.80} is not an https URL", sign_in.issuer, hint)
    if sign_in.url is not None and urlsplit(sign_in.url).scheme != "https":
        hint = "write https://…: browsers keep the cookie of a session over TLS only"
        yield Fault("signIn.url", f"{sign_in.url!r:.80} is not an https URL", sign_in.url, hint)
    yield from program_faults("signIn.programsUrl", sign_in.programs_url, "signIn.url", sign_in.url)
    if "openid" not in sign_in.scopes.split():
        yield Fault("signIn.scopes", "without openid there is no ID token", sign_in.scopes, f"for example '{SCOPES}'")
    if sign_in.ca and not texts.are_certificates(sign_in.ca):
        hint = "paste the file that begins with -----BEGIN CERTIFICATE-----"
        yield Fault("signIn.ca", "no PEM certificates", "", hint)


def _gateway_faults(settings: InstallSettings, unread: Collection[str]) -> Iterator[Fault]:
    chosen = settings.gateway
    if chosen.enabled and not settings.sign_in.issuer and "signIn" not in unread:
        yield Fault("gateway.enabled", "there is no provider whose ID tokens it could verify", "", "set signIn.issuer")
    if not _GATEWAY_PREFIX.fullmatch(chosen.prefix) or chosen.prefix.startswith("system:"):
        hint = "write a word and a colon, for example oidc:"
        yield Fault("gateway.prefix", f"{chosen.prefix!r:.40} cannot keep names apart", chosen.prefix, hint)
    for field, listed in (("groups", chosen.groups), ("users", chosen.users)):
        for index, name in enumerate(listed):
            if not name.startswith(chosen.prefix) or name == chosen.prefix or not name.isprintable():
                hint = f"write {chosen.prefix}NAME, as the provider names it behind the prefix"
                yield Fault(f"gateway.{field}[{index}]", f"no ID token can name {name!r:.80}", name, hint)


def _full_image_name(prefix: str, name: str, digest: str | None) -> str:
    whole = f"{prefix.rstrip('/')}/{name}" if prefix else name
    if not digest:
        return whole
    path, _, last = whole.rpartition("/")
    bare = last.partition("@")[0].partition(":")[0]
    return f"{path}/{bare}@{digest}" if path else f"{bare}@{digest}"
