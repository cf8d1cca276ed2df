"""The shapes of the documents that clients send: the fields that are read here, with the types that moby's
`api/swagger.yaml` gives them.

Docker's daemon is written in Go, so a field of another type is refused, `null` leaves a field out, and numbers have 64
bits. Fields that nothing here reads may have any value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_pascal

from kajitori.core.documents.faults import Document, read
from kajitori.errors import InvalidInput

Number = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Words = Annotated[list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
"""A list of words; one word may stand alone."""


class Body(Document):
    """Base of all shapes."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_pascal)


class Addresses(Body):
    """Addresses that a client wants in a network."""

    ipv4_address: str | None = Field(default=None, alias="IPv4Address")
    ipv6_address: str | None = Field(default=None, alias="IPv6Address")
    link_local_ips: list[str] | None = Field(default=None, alias="LinkLocalIPs")


class Endpoint(Body):
    """A container in a network."""

    ipam_config: Addresses | None = Field(default=None, alias="IPAMConfig")
    links: list[str] | None = None
    aliases: list[str] | None = None
    mac_address: str | None = None
    driver_opts: dict[str, str] | None = None


class Networking(Body):
    """The networks of a new container."""

    endpoints_config: dict[str, Endpoint | None] | None = None


class DeviceRequest(Body):
    """The GPUs of a container."""

    driver: str | None = None
    count: Number | None = None
    device_ids: list[str] | None = Field(default=None, alias="DeviceIDs")
    capabilities: list[list[str]] | None = None


class Mount(Body):
    """A volume or a folder of a container."""

    type: str | None = None
    source: str | None = None
    target: str | None = None
    read_only: bool | None = None


class PortBinding(Body):
    """A port of the user's machine."""

    host_ip: str | None = None
    host_port: str | None = None


class RestartPolicy(Body):
    """Whether a program is started again when it has ended."""

    name: str | None = None
    maximum_retry_count: Number | None = None


class LogConfig(Body):
    """The log driver of a container."""

    type: str | None = None
    config: dict[str, str] | None = None


class Healthcheck(Body):
    """The health check of a container. Times are in nanoseconds."""

    test: list[str] | None = None
    interval: Number | None = None
    timeout: Number | None = None
    start_period: Number | None = None
    start_interval: Number | None = None
    retries: Number | None = None


class Limits(Body):
    """The parts of a HostConfig that `docker update` changes, too."""

    memory: Number | None = None
    nano_cpus: Number | None = None
    restart_policy: RestartPolicy | None = None


class HostConfig(Limits):
    """The HostConfig of a new container."""

    auto_remove: bool | None = None
    binds: list[str] | None = None
    device_requests: list[DeviceRequest] | None = None
    ipc_mode: str | None = None
    log_config: LogConfig | None = None
    mounts: list[Mount] | None = None
    network_mode: str | None = None
    port_bindings: dict[str, list[PortBinding] | None] | None = None
    privileged: bool | None = None
    shm_size: Number | None = None
    tmpfs: dict[str, str] | None = None


class ContainerBody(Body):
    """The body of `POST /containers/create`."""

    image: str | None = None
    entrypoint: Words | None = None
    cmd: Words | None = None
    working_dir: str | None = None
    user: str | None = None
    env: list[str] | None = None
    labels: dict[str, str] | None = None
    volumes: dict[str, Any] | None = None
    exposed_ports: dict[str, Any] | None = None
    open_stdin: bool | None = None
    tty: bool | None = None
    stop_timeout: Number | None = None
    network_disabled: bool | None = None
    healthcheck: Healthcheck | None = None
    host_config: HostConfig | None = None
    networking_config: Networking | None = None


class ExecBody(Body):
    """The body of `POST /containers/{id}/exec`."""

    cmd: Words | None = None
    user: str | None = None
    working_dir: str | None = None
    env: list[str] | None = None
    privileged: bool | None = None
    tty: bool | None = None
    attach_stdin: bool | None = None
    attach_stdout: bool | None = None
    attach_stderr: bool | None = None
    detach_keys: str | None = None
    console_size: list[Number] | None = None


class ExecStartBody(Body):
    """The body of `POST /exec/{id}/start`."""

    detach: bool | None = None
    tty: bool | None = None


class AddressRanges(Body):
    """The address ranges that a client wants for a network."""

    config: list[dict[str, Any]] | None = None


class NetworkBody(Body):
    """The body of `POST /networks/create`."""

    name: str | None = None
    driver: str | None = None
    internal: bool | None = None
    ipam: AddressRanges | None = Field(default=None, alias="IPAM")
    enable_ipv6: bool | None = Field(default=None, alias="EnableIPv6")
    labels: dict[str, str] | None = None


class JoiningBody(Body):
    """The body of `POST /networks/{id}/connect` and `disconnect`."""

    container: str | None = None
    endpoint_config: Endpoint | None = None


class VolumeBody(Body):
    """The body of `POST /volumes/create`."""

    name: str | None = None
    labels: dict[str, str] | None = None


def check_shape(document: Mapping[str, Any], shape: type[Body]) -> None:
    """Raise InvalidInput with all fields whose values have another type than in this shape."""
    _, faults, _ = read(shape, document, "")
    if faults:
        raise InvalidInput(faults)
