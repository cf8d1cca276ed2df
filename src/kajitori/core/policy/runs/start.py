"""Policy for the start of members: the policy file's sections `start`, `binding` and `rendezvous`, as types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero, Image, LabelKey, LabelValue, ServerUrl
from kajitori.core.kubernetes.texts import are_certificates, is_loopback
from kajitori.errors import FieldError

Port = Annotated[int, Field(ge=1024, le=65535)]


class Starting(Document):
    """How members start: the first step of each member, the deadline of a start, and the backoff after a failed one."""

    image: Image | None = None
    """Kajitori's own image. Each member of a gang begins with a short init container in it, the first step, which asks
    the Web API for the addresses of all members. Members then find the hostfile that KAJI_HOSTS names, and can resolve
    each other's names. Left out: no first step and no hostfile. On its own cluster, `kaji up` sets this field and
    server."""
    server: ServerUrl | None = None
    """URL under which members reach the Web API, for example http://kajitori.kajitori.svc:8600."""
    server_ca: Annotated[str, Field(max_length=64 * 1024)] | None = Field(default=None, alias="serverCA")
    """For an https server: the certificates of its certificate authority, as PEM. Left out: the certificate authorities
    that the image trusts."""

    deadline_seconds: DurationAboveZero = Field(default=600, alias="deadline")
    """If not all members of an attempt run, and none was created or started for this time, the attempt is ended and its
    nodes become free."""
    pause_seconds: DurationAboveZero = Field(default=10, alias="pause")
    """Pause before the next attempt after a failed start; doubled after each further failed start in a row."""
    longest_pause_seconds: DurationAboveZero = Field(default=600, alias="longestPause")
    """Upper limit of this pause."""
    restart_grace_seconds: Duration = Field(default=5, alias="restartGrace")
    """When a member of a gang fails: time between SIGTERM and SIGKILL for the other members."""

    _is_on_bridge: bool = PrivateAttr(default=False)
    """Whether the server is at the address of this machine's own bridge, which its traffic does not leave."""

    def with_server_on_bridge(self) -> Starting:
        """Return the settings of `kaji up`, whose server listens on the bridge of its Pods."""
        copy = self.model_copy()
        copy._is_on_bridge = True
        return copy

    @property
    def findings(self) -> list[str]:
        """Return warnings about settings that are valid but probably not intended."""
        url = urlsplit(self.server or "")
        if url.scheme != "http" or is_loopback(url.hostname or "") or self._is_on_bridge:
            return []
        warning = (
            f"start.server is {self.server}: tickets, code and the SSH keys of MPI runs cross the network in plain text"
        )
        return [f"{warning}; use https with serverCA to encrypt them"]

    @field_validator("server_ca")
    @classmethod
    def _is_pem(cls, pem: str | None) -> str | None:
        if pem is not None and not are_certificates(pem):
            hint = "write the certificate of the certificate authority as PEM: -----BEGIN CERTIFICATE----- and so on"
            raise FieldError("this is not a certificate", hint)
        return pem

    @model_validator(mode="after")
    def _authority_of_https(self) -> Starting:
        if self.server_ca is not None and not (self.server or "").startswith("https:"):
            raise FieldError("serverCA needs an https server", "write server as https://…, or leave serverCA out")
        return self

    @model_validator(mode="after")
    def _image_and_server(self) -> Starting:
        if (self.image is None) != (self.server is None):
            raise FieldError("image and server must be set together", "set both, or neither")
        return self


class Binding(Document):
    """How members are bound to their planned nodes."""

    bind: Literal["scheduler", "direct"] = "scheduler"
    """scheduler: kube-scheduler binds each member, pinned to its planned node. direct: Kajitori sets the Pod's nodeName
    itself, which is faster. Use it for nodes on which only Kajitori places Pods."""
    directly_on: list[dict[LabelKey, LabelValue]] = Field(default_factory=list)
    """Node pools, each given by its labels, where members are bound directly whatever `bind` says."""

    def binds_directly(self, labels: Mapping[str, str]) -> bool:
        """Whether members are bound directly on a node with these labels."""
        if self.bind == "direct":
            return True
        return any(pool and all(labels.get(key) == value for key, value in pool.items()) for pool in self.directly_on)


class Rendezvous(Document):
    """Range of ports for the rendezvous of a gang's members. Each attempt gets one port of its own."""

    first_port: Port = 20000
    """First port of the range."""
    last_port: Port = 29999
    """Last port of the range."""

    @field_validator("last_port")
    @classmethod
    def _check_order(cls, last: int, info: ValidationInfo) -> int:
        if last < info.data.get("first_port", last):
            raise FieldError(f"lastPort {last} is below firstPort", "raise lastPort or lower firstPort")
        return last
