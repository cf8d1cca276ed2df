"""The options and arguments of `kaji run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RunWords:
    """The command line of `kaji run`, with its values as they were typed."""

    image: str | None = None
    command: Sequence[str] = ()
    file: str | None = None
    template: str | None = None
    """Name of a template of the policy."""
    name: str | None = None
    namespace: str | None = None
    type: str | None = None
    replicas: str | None = None
    array: str | None = None
    stop_at: str | None = None
    launcher: str | None = None
    after: Sequence[str] = ()
    gpus: str | None = None
    gpu_type: str | None = None
    cpus: str | None = None
    memory: str | None = None
    shm_size: str | None = None
    whole_node: bool = False
    env: Sequence[str] = ()
    env_file: Sequence[str] = ()
    secret: Sequence[str] = ()
    volume: Sequence[str] = ()
    mount: Sequence[str] = ()
    ipc: str | None = None
    code: str | None = None
    checkpoint: str | None = None
    checkpoint_every: str | None = None
    workdir: str | None = None
    tensorboard: str | None = None
    entrypoint: str | None = None
    user: str | None = None
    publish: Sequence[str] = ()
    expose: Sequence[str] = ()
    health_cmd: str | None = None
    health_interval: str | None = None
    health_timeout: str | None = None
    health_retries: str | None = None
    health_start_period: str | None = None
    health_start_interval: str | None = None
    no_healthcheck: bool = False
    label: Sequence[str] = ()
    restarts: str | None = None
    priority: str | None = None
    time_limit: str | None = None
    notify: str | None = None
    stuck_after: str | None = None
    on_stuck: str | None = None
    grace: str | None = None
    stop_timeout: str | None = None
    platform: str | None = None
    node_selector: Sequence[str] = ()
    toleration: Sequence[str] = ()
    privileged: bool = False
    network: str | None = None
    network_alias: Sequence[str] = ()
    allow_from: Sequence[str] = ()
    allow_to: Sequence[str] = ()
    restart: str | None = None
    interactive: bool = False
    tty: bool = False
    detach: bool = False
    remove: bool = False
    borrowed: Mapping[str, str] = field(default_factory=dict)
    """Options of other tools that have no meaning here, with their values: see `borrowed_options`."""
