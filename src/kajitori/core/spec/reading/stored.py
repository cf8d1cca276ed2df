"""The fields of a stored spec that the cluster's view of a Run depends on, each read on its own.

A user may have made a Run invalid after it was admitted. Every field that can be read counts; a field that cannot be
read has its default. `core.spec.draft` reads a spec in full and reports faults.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from kajitori.core.formats.quantities import parse_cpu_millis, parse_duration_seconds
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.reasons import AfterCondition

T = TypeVar("T")


class _Wire(msgspec.Struct, rename="camel"):
    """A spec as JSON has it, with any type in every field."""

    type: Any = None
    image: Any = None
    priority: Any = None
    stopped: Any = None
    parked: Any = None
    keep_idle_until: Any = None
    ports: Any = None
    replicas: Any = None
    min_replicas: Any = None
    array: Any = None
    time_limit: Any = None
    stuck_after: Any = None
    checkpoint: Any = None
    resources: Any = None
    code: Any = None
    files: Any = None
    secrets: Any = None
    stdin: Any = None
    tty: Any = None
    after: Any = None
    health: Any = None


_NO_NAMES: frozenset[str] = frozenset()


class StoredSpec(msgspec.Struct, frozen=True):
    """A stored spec as far as it can be read."""

    type: Literal["batch", "service"] = "batch"
    """A notebook is a batch run of one member as far as its life is concerned."""
    is_notebook: bool = False
    image: str = ""
    priority: Literal["high", "normal", "low"] | None = None
    """None: the policy's default priority applies."""
    stopped: bool = False
    parked: bool = False
    keep_idle_until: datetime | None = None
    has_ports: bool = False
    """Notebooks have one by default."""
    replicas: int = 1
    min_replicas: int | None = None
    is_sweep: bool = False
    array: str = ""
    """The indices of a sweep, as written; empty for other runs and if it is no text."""
    time_limit_seconds: int | None = None
    stuck_after_seconds: int | None = None
    has_checkpoint: bool = False
    checkpoint_every_seconds: int = 0
    """0: not known."""
    gpus: int = 0
    """GPUs of each member."""
    gpu_type: str = ""
    """Empty: any type."""
    cpu_millis: int = 0
    """CPU of each member; 0: the policy's default applies."""
    code_digest: str = ""
    files_digest: str = ""
    secret_names: frozenset[str] = _NO_NAMES
    has_stdin: bool = False
    has_tty: bool = False
    after: tuple[tuple[str, AfterCondition], ...] = ()
    """Names of the runs for which this one waits before it starts, each with its condition."""
    has_health_check: bool = False

    @property
    def is_service(self) -> bool:
        return self.type == "service"

    @property
    def is_elastic(self) -> bool:
        """Whether the run may start with fewer members than it asks for."""
        return 0 < (self.min_replicas or 0) < self.replicas

    @property
    def members(self) -> int:
        """Number of members that work together: the members of a sweep work alone."""
        return 1 if self.is_sweep else max(1, self.replicas)

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it: a notebook, or a batch run with a terminal that takes input."""
        return self.is_notebook or (self.type == "batch" and self.has_stdin and self.has_tty)

    @property
    def is_gang(self) -> bool:
        """Whether its members work together, each at the others' pace."""
        return self.type == "batch" and not self.is_sweep and not self.is_notebook


def read_stored(spec: bytes | msgspec.Raw) -> StoredSpec:
    """Return what can be read of a stored spec. Never raises."""
    try:
        wire = _decoder.decode(spec)
    except msgspec.DecodeError:
        return StoredSpec()
    checkpoint = wire.checkpoint if isinstance(wire.checkpoint, dict) else {}
    resources = wire.resources if isinstance(wire.resources, dict) else {}
    code = wire.code if isinstance(wire.code, dict) else {}
    files = wire.files if isinstance(wire.files, dict) else {}
    return StoredSpec(
        type="service" if wire.type == "service" else "batch",
        is_notebook=wire.type == "notebook",
        image=wire.image if isinstance(wire.image, str) else "",
        priority=wire.priority if wire.priority in ("high", "normal", "low") else None,
        stopped=wire.stopped is True,
        parked=wire.parked is True,
        keep_idle_until=_time_or_none(wire.keep_idle_until),
        has_ports=bool(wire.ports) or wire.type == "notebook",
        replicas=_integer_or(wire.replicas, 1),
        min_replicas=_integer_or(wire.min_replicas, None),
        is_sweep=wire.array is not None,
        array=wire.array if isinstance(wire.array, str) else "",
        time_limit_seconds=_parsed_or(parse_duration_seconds, wire.time_limit, 0) or None,
        stuck_after_seconds=_parsed_or(parse_duration_seconds, wire.stuck_after, 0) or None,
        has_checkpoint=wire.checkpoint is not None or wire.type == "notebook",
        checkpoint_every_seconds=_parsed_or(parse_duration_seconds, checkpoint.get("every"), 0),
        gpus=_integer_or(resources.get("gpu"), 0),
        gpu_type=resources["gpuType"] if isinstance(resources.get("gpuType"), str) else "",
        cpu_millis=_parsed_or(parse_cpu_millis, resources.get("cpu"), 0),
        code_digest=str(code.get("digest") or ""),
        files_digest=str(files.get("digest") or ""),
        secret_names=_secret_names(wire.secrets) if wire.secrets is not None else _NO_NAMES,
        has_stdin=wire.stdin is True,
        has_tty=wire.tty is True,
        after=_stored_after(wire.after) if wire.after is not None else (),
        has_health_check=isinstance(wire.health, dict),
    )


_decoder = msgspec.json.Decoder(_Wire)


def _secret_names(secrets: Any) -> frozenset[str]:
    if not isinstance(secrets, list):
        return _NO_NAMES
    return frozenset(str(use["name"]) for use in secrets if isinstance(use, dict) and "name" in use)


def _stored_after(others: Any) -> tuple[tuple[str, AfterCondition], ...]:
    if not isinstance(others, list):
        return ()
    found = (other for other in others if isinstance(other, dict) and isinstance(other.get("run"), str))
    return tuple((other["run"], _condition(other.get("condition"))) for other in found)


def _condition(value: Any) -> AfterCondition:
    return value if value in ("healthy", "ended") else "succeeded"


def _integer_or(value: Any, default: T) -> int | T:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _time_or_none(value: Any) -> datetime | None:
    with suppress(ValueError):
        moment = parse_time(value) if isinstance(value, str) else None
        return moment if moment is not None and moment.tzinfo is not None else None
    return None


def _parsed_or(parse: Callable[[Any], int], value: Any, default: int) -> int:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        with suppress(ValueError):
            return parse(value)
    return default
