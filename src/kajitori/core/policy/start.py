"""How members start: the policy file's sections `start`, `binding` and `rendezvous`, as types."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero, Image, LabelKey, LabelValue, ServerUrl
from kajitori.core.words.texts import is_loopback
from kajitori.errors import FieldError

Port = Annotated[int, Field(ge=1024, le=65535)]


class Starting(Document):
    """How members start: what gets them ready, how long that may take, and what follows if it takes longer."""

    image: Image | None = None
    """Kajitori's own image. Members of a gang begin with a short step in it, which asks the Web API for the addresses
    of all, so that they find the hostfile that KAJI_HOSTS names, and each other by name. Left out: no such step and no
    hostfile. `kaji up` on its own cluster fills in this and server."""
    server: ServerUrl | None = None
    """Where members reach the Web API, such as http://kajitori.kajitori.svc:8600."""
    server_ca: Annotated[str, Field(max_length=64 * 1024)] | None = Field(default=None, alias="serverCA")
    """For an https server: the certificates of who vouches for it, as PEM. Left out: whom the image trusts."""

    deadline_seconds: DurationAboveZero = Field(default=600, alias="deadline")
    """An attempt whose members do not all run by then is taken down, and its nodes are free again."""
    pause_seconds: DurationAboveZero = Field(default=10, alias="pause")
    """Until the next attempt after a failed start; doubled with each further one in a row."""
    longest_pause_seconds: DurationAboveZero = Field(default=600, alias="longestPause")
    """The pause does not grow beyond this."""
    restart_grace_seconds: Duration = Field(default=5, alias="restartGrace")
    """What the survivors of a broken gang get between SIGTERM and SIGKILL."""

    @property
    def findings(self) -> list[str]:
        """What may not be meant so."""
        where = urlsplit(self.server or "")
        if where.scheme != "http" or is_loopback(where.hostname or ""):
            return []
        said = (
            f"start.server is {self.server}: tickets, code and the SSH keys of MPI runs cross the network in plain text"
        )
        return [f"{said}; https, with serverCA, encrypts them"]

    @field_validator("server_ca")
    @classmethod
    def _is_pem(cls, pem: str | None) -> str | None:
        if pem is None:
            return None
        try:
            ssl.create_default_context(cadata=pem)
        except (ssl.SSLError, ValueError) as error:
            hint = "write the certificate of the authority as PEM: -----BEGIN CERTIFICATE----- and so on"
            raise FieldError("this is no certificate", hint) from error
        return pem

    @model_validator(mode="after")
    def _authority_of_https(self) -> Starting:
        if self.server_ca is not None and not (self.server or "").startswith("https:"):
            raise FieldError("serverCA is for an https server", "give server as https://…, or leave serverCA out")
        return self

    @model_validator(mode="after")
    def _image_and_server(self) -> Starting:
        if (self.image is None) != (self.server is None):
            raise FieldError("image and server go together", "give both, or neither")
        return self


class Binding(Document):
    """Who puts a member on the node that was planned for it."""

    bind: Literal["scheduler", "direct"] = "scheduler"
    """scheduler: kube-scheduler, pinned to that node. direct: the node's name stands in the Pod; quicker, and right for
    nodes that only Kajitori fills."""
    directly_on: list[dict[LabelKey, LabelValue]] = Field(default_factory=list)
    """Node pools, each by its labels, where members are bound directly whatever `bind` says."""

    def binds_directly(self, labels: Mapping[str, str]) -> bool:
        """Whether members are bound directly on a node with these labels."""
        if self.bind == "direct":
            return True
        return any(pool and all(labels.get(key) == value for key, value in pool.items()) for pool in self.directly_on)


class Rendezvous(Document):
    """Ports on which the members of a gang find each other; each attempt gets one of its own."""

    first_port: Port = 20000
    """The first of the range."""
    last_port: Port = 29999
    """The last of the range."""

    @field_validator("last_port")
    @classmethod
    def _upwards(cls, last: int, info: ValidationInfo) -> int:
        if last < info.data.get("first_port", last):
            raise FieldError(f"lastPort {last} is below firstPort", "widen the range")
        return last
