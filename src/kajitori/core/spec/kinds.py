"""Which runs are of one kind: what earlier ones needed, and how long they took, tells about the next.

Of one kind are the runs of one person in one namespace that start the same program: image (whatever its tag), command
and GPUs of a member. Numbers among the words play no part, nor do those in paths, so that a sweep, another seed or
another output folder is no other kind; the name of another model is one. What is uploaded as code plays none, either:
an edited program needs about what it needed before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from kajitori.core.spec.run import RunSpec
from kajitori.core.words.image_names import full_image_name

_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.-])")
_NUMBER_IN_PATH = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
_PATH = re.compile(r"(?:^|(?<==))(?:\.{0,2}|~)/")


@dataclass(frozen=True, slots=True)
class Kind:
    """What runs of one kind have in common."""

    namespace: str
    owner: str
    """Who submitted them; empty for runs that came by kubectl."""
    type: str
    launcher: str
    image: str
    words: tuple[str, ...]
    gpus: int
    """Of each member: processes, and with them memory, follow their number."""


class _Resources(msgspec.Struct):
    gpus: int = msgspec.field(name="gpu", default=0)


class _Spec(msgspec.Struct):
    """The fields of a stored spec that kinship depends on."""

    image: str
    type: str = "batch"
    launcher: str = "none"
    command: list[str] = []
    args: list[str] = []
    resources: _Resources = msgspec.field(default_factory=_Resources)


def kind_of(spec: RunSpec | _Spec, namespace: str, owner: str) -> Kind:
    """The kind of a run with this spec."""
    return Kind(
        namespace=namespace,
        owner=owner,
        type=spec.type,
        launcher=spec.launcher,
        image=_repository(spec.image),
        words=_blurred(*spec.command, *spec.args),
        gpus=spec.resources.gpus,
    )


def kind_of_stored(spec: bytes | msgspec.Raw, namespace: str, owner: str) -> Kind | None:
    """The kind of a Run as it is stored; None where its spec can't be read. Much cheaper than reading all of it."""
    try:
        read = _decoder.decode(spec)
    except msgspec.DecodeError:
        return None
    return kind_of(read, namespace, owner)


_decoder = msgspec.json.Decoder(_Spec)


def _repository(image: str) -> str:
    """The image without tag and digest."""
    full = full_image_name(image).partition("@")[0]
    folder, slash, last = full.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def _blurred(*words: str) -> tuple[str, ...]:
    """The words with `#` for numbers: for those that stand alone, and for all in a path's parts."""
    return tuple((_NUMBER_IN_PATH if _PATH.search(word) else _NUMBER).sub("#", word) for word in words)
