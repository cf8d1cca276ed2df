"""Kinds of runs: the resources and running times of earlier runs predict those of later runs of the same kind.

Runs are of the same kind if they belong to the same user and namespace and start the same program: image (without tag),
command and number of GPUs per member. Numbers in the command are ignored, also in paths, so that another seed or output
folder does not change the kind; the name of another model does. Uploaded code is ignored as well, since an edited
program needs about as much as before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from kajitori.core.kubernetes.image_names import full_image_name
from kajitori.core.spec.run import RunSpec

_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.-])")
_NUMBER_IN_PATH = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
_PATH = re.compile(r"(?:^|(?<==))(?:\.{0,2}|~)/")


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties that all runs of one kind share."""

    namespace: str
    owner: str
    """User who submitted the runs; empty for runs created with kubectl."""
    type: str
    launcher: str
    image: str
    words: tuple[str, ...]
    """Words of the command, with `#` in place of numbers."""
    gpus: int
    """GPUs per member. The number of processes, and thus memory, depends on it."""


class _Resources(msgspec.Struct):
    gpus: int = msgspec.field(name="gpu", default=0)


class _Spec(msgspec.Struct):
    """The fields of a stored spec that determine the kind."""

    image: str
    type: str = "batch"
    launcher: str = "none"
    command: list[str] = []
    args: list[str] = []
    resources: _Resources = msgspec.field(default_factory=_Resources)


def kind_of(spec: RunSpec | _Spec, namespace: str, owner: str) -> Kind:
    """Return the kind of a run with this spec."""
    return Kind(
        namespace=namespace,
        owner=owner,
        type=spec.type,
        launcher=spec.launcher,
        image=_repository_of(spec.image),
        words=_without_numbers(*spec.command, *spec.args),
        gpus=spec.resources.gpus,
    )


def kind_of_stored(spec: bytes | msgspec.Raw, namespace: str, owner: str) -> Kind | None:
    """Return the kind of a stored Run; None if its spec cannot be read. This is much cheaper than reading all of it."""
    try:
        read = _decoder.decode(spec)
    except msgspec.DecodeError:
        return None
    return kind_of(read, namespace, owner)


_decoder = msgspec.json.Decoder(_Spec)


def _repository_of(image: str) -> str:
    """Return the full name of an image without tag and digest."""
    full = full_image_name(image).partition("@")[0]
    folder, slash, last = full.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def _without_numbers(*words: str) -> tuple[str, ...]:
    """Replace numbers by `#`: in a path everywhere, in other words only if they stand alone."""
    return tuple((_NUMBER_IN_PATH if _PATH.search(word) else _NUMBER).sub("#", word) for word in words)
