"""Images as Docker's clients see them: those that nodes have, those of the user's runs, and those that were checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from kajitori.docker.translation.container import NO_TIME, Container, seconds_of


def familiar_name(name: str) -> str:
    """Return a name in the form that Docker's clients show: without Docker's own registry, and with a tag or digest."""
    plain = name.removeprefix("docker.io/").removeprefix("library/") if name.startswith("docker.io/") else name
    return plain if "@" in plain or ":" in plain.rpartition("/")[2] else f"{plain}:latest"


def image_id(name: str) -> str:
    """Return an id that follows from an image's name: clients want one."""
    return "sha256:" + sha256(f"kajitori image {familiar_name(name)}".encode()).hexdigest()


@dataclass(slots=True)
class Image:
    """One image, under all of its names."""

    tags: dict[str, None] = field(default_factory=dict)
    """Names with tags, such as `python:3.12`, in the form that Docker's clients show."""
    digests: dict[str, None] = field(default_factory=dict)
    """Names with digests."""
    size_bytes: int = 0
    """0 if no node has reported it."""
    runs: list[Container] = field(default_factory=list)
    """The user's runs with this image, newest first."""

    @property
    def names(self) -> list[str]:
        return [*self.tags, *self.digests]

    @property
    def id(self) -> str:
        return image_id(self.names[0])

    @property
    def ids(self) -> set[str]:
        """Its ids, one for each name: a container's follows from the name that the client wrote."""
        return {image_id(name) for name in self.names}

    @property
    def created(self) -> str:
        """Time of the user's first run with it, since nodes do not report when an image was built."""
        return str(self.runs[-1].view["createdAt"]) if self.runs else NO_TIME

    def add(self, name: str) -> None:
        (self.digests if "@" in name else self.tags)[name] = None

    def summary(self) -> dict[str, Any]:
        """Return one entry of `GET /images/json`."""
        return {
            "Id": self.id,
            "ParentId": "",
            "RepoTags": list(self.tags),
            "RepoDigests": list(self.digests),
            "Created": int(seconds_of(self.created)),
            "Size": self.size_bytes,
            "SharedSize": -1,
            "Labels": {},
            "Containers": len(self.runs),
        }

    def inspection(self) -> dict[str, Any]:
        """Return the answer of `GET /images/{name}/json`. Compose shows the time of the last tag as an image's age."""
        return {
            "Id": self.id,
            "RepoTags": list(self.tags),
            "RepoDigests": list(self.digests),
            **({"Created": self.created} if self.created != NO_TIME else {}),
            "Size": self.size_bytes,
            "Os": "linux",
            "Architecture": "amd64",
            "Config": {"Cmd": None, "Entrypoint": None, "Env": [], "Labels": {}, "ExposedPorts": {}, "WorkingDir": ""},
            "RootFS": {"Type": "layers", "Layers": []},
            "GraphDriver": {"Name": "kajitori", "Data": None},
            "Metadata": {"LastTagTime": self.created},
        }


def gathered(
    on_nodes: Iterable[Mapping[str, Any]], containers: Sequence[Container], checked: Iterable[str]
) -> list[Image]:
    """Return each image once. `on_nodes` are items of `GET /v1/images`, `checked` names that policy allows."""
    by_name: dict[str, Image] = {}
    for item in on_nodes:
        names = [familiar_name(str(name)) for name in item["names"]]
        image = next((by_name[name] for name in names if name in by_name), Image())
        image.size_bytes = max(image.size_bytes, int(item["sizeBytes"]))
        for name in names:
            image.add(name)
            by_name[name] = image
    for container in containers:
        _named(by_name, str(container.spec.get("image", ""))).runs.append(container)
    for name in checked:
        _named(by_name, name)
    return list({id(image): image for image in by_name.values()}.values())


def _named(by_name: dict[str, Image], text: str) -> Image:
    name = familiar_name(text)
    if name not in by_name:
        by_name[name] = Image()
        by_name[name].add(name)
    return by_name[name]


def find(images: Sequence[Image], reference: str) -> Image | None:
    """Return the image that a name, an id or the beginning of an id means."""
    name = familiar_name(reference)
    digits = reference.removeprefix("sha256:")
    return next(
        (one for one in images if name in one.names),
        next((one for one in images if any(id.startswith(f"sha256:{digits}") for id in one.ids)), None),
    )


def fits(image: Image, pattern: str) -> bool:
    """Whether a `reference` filter means an image: a repository, a name with a tag, or either with `*` and `?`."""
    plain = pattern.removeprefix("docker.io/library/").removeprefix("docker.io/")
    return any(fnmatchcase(one, plain) for name in image.names for one in (name, _repository(name)))


def _repository(name: str) -> str:
    name = name.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
