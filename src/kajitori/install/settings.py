"""Settings of an installation: the file of `kaji install --settings`, and the values of the Helm chart."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kajitori import __version__
from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Digest, DnsLabel, LabelKey, LabelValue, ObjectName, ServerUrl
from kajitori.core.documents.files import parse_document
from kajitori.core.words import names, texts
from kajitori.errors import FieldError

TLS_SECRET = "kajitori-tls"
"""Secret with `tls.crt`, `tls.key` and `ca.crt` of the parts, in each of the two namespaces."""
CA_SECRET = "kajitori-ca"
"""Secret with the key of the installation's own authority."""
RECORD = "kajitori-install"
"""ConfigMap in which an installation keeps its version, its settings, and the list of what it applied."""
SERVER_PORT, RELAY_PORT, CONTROLLER_PORT, AGENT_PORT = 8600, 8601, 8602, 9465

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTP]i?)?", re.ASCII)


def _quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise FieldError(f"{text!r:.80} is not an amount", "write a number such as 2, 500m or 4Gi")
    return text


def _host_name(text: str) -> str:
    if texts.dns_subdomain(text.removeprefix("*.")) and not re.fullmatch(r"[0-9A-Fa-f.:]+", text):
        raise FieldError(f"{text!r:.80} is not a host name or address", "write a name such as kaji.example.org")
    return text


Quantity = Annotated[
    str, BeforeValidator(lambda given: str(given) if isinstance(given, int) else given), AfterValidator(_quantity)
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
    """own: `kaji install` makes an authority and a certificate, and a CronJob renews the latter. certManager:
    cert-manager issues them. given: the Secret kajitori-tls (tls.crt, tls.key, ca.crt) exists in both namespaces;
    agents need only ca.crt. none: plain HTTP, for a network that encrypts by itself."""
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
    policy: dict[str, Any] = Field(default_factory=lambda: {"traffic": {"every": "15s"}})
    """Policy of agents: the section `traffic` of your policy file."""
    relay_url: ServerUrl | None = None
    """URL of the relay; left out: that of its Service."""


class StoreSettings(Document):
    """Store of code, kept logs and results."""

    url: str = ""
    """s3://…, az://… or gs://…. Empty: no uploads, and logs disappear with their Pods."""
    secret: ObjectName | None = None
    """Secret in the parts' namespace, whose keys become variables of Web API and controller: the store's credentials
    (AWS_ACCESS_KEY_ID and so on), and KAJI_HISTORY_PASSWORD."""


class HistorySettings(Document):
    """Database of ended runs, usage and audit."""

    url: str = ""
    """postgresql://USER@HOST/DATABASE; the password is KAJI_HISTORY_PASSWORD in the Secret of `store.secret`. Empty: no
    history."""


class SignInSettings(Document):
    """OpenID provider at which people sign in with `kaji login`. kube-apiserver must accept its tokens."""

    issuer: str = ""
    """Its URL. Empty: people bring tokens of their own."""
    client_id: str = "kaji"
    """Name of the client at the provider."""


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
    monitoring_namespace: DnsLabel = "monitoring"
    """Namespace of the Prometheus that reads the controllers' metrics."""
    flow_control: bool = True
    """Whether the parts get a share of the API server of their own (API Priority and Fairness)."""
    owner_policy: bool = True
    """Whether the API server protects a run's owner and the labels of its Pods. It needs Kubernetes 1.30."""

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
        """Whether the parts serve TLS."""
        return self.tls.certificates != "none"

    @property
    def server_url(self) -> str:
        """URL under which members and agents reach the Web API."""
        return self.server.url or self._url("server", SERVER_PORT)

    @property
    def relay_url(self) -> str:
        """URL under which agents reach the relay."""
        return self.agents.relay_url or self._url("relay", RELAY_PORT)

    @property
    def parts_image(self) -> str:
        """Complete name of the parts' image."""
        return _image(self.images.prefix, self.images.parts, self.images.parts_digest)

    @property
    def members_image(self) -> str:
        """Complete name of the image of members' first step."""
        return _image(self.images.prefix, self.images.members, self.images.members_digest)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """Names of the parts' certificate: those of the Services, of this machine for `kubectl port-forward`, and the
        settings' own."""
        services = [f"{name}.{self.namespace}" for name in ("server", "relay", "controller")]
        inside = [f"{name}{end}" for name in services for end in ("", ".svc", ".svc.cluster.local")]
        return tuple(dict.fromkeys((*inside, "localhost", "127.0.0.1", *self.tls.names)))

    def _url(self, service: str, port: int) -> str:
        return f"{'https' if self.encrypts else 'http'}://{service}.{self.namespace}.svc:{port}"


def parse_settings(text: str | bytes) -> InstallSettings:
    """Read settings from YAML. An empty text gives the defaults. Raises InvalidInput with all faults at once."""
    return parse_document(InstallSettings, text, "settings", "images, tls and server")


def _image(prefix: str, name: str, digest: str | None) -> str:
    whole = f"{prefix.rstrip('/')}/{name}" if prefix else name
    if not digest:
        return whole
    path, _, last = whole.rpartition("/")
    bare = last.partition("@")[0].partition(":")[0]
    return f"{path}/{bare}@{digest}" if path else f"{bare}@{digest}"
