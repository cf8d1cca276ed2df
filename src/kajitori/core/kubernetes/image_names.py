"""Names of container images, in the grammar of Docker, containerd and Kubernetes, and patterns for them.

The grammar is that of github.com/distribution/reference: `domain/path:tag@digest`. The first part is a domain only if
it has a dot, a colon or an upper-case letter, or is `localhost`; else the image is on Docker Hub. An image has several
spellings, so rules compare names in their full form.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

DOCKER_HUB = "docker.io"
DOCKER_HUB_ALIASES = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_DEFAULT_PORTS = frozenset({80, 443})
"""Ports of HTTP and HTTPS. A name with one of them refers to the same registry as the name without it."""
MAX_REPOSITORY_LENGTH = 255

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<domain>{_DOMAIN}(?=/))?(?P<path>/?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][-._A-Za-z0-9]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_PROGRAMS = frozenset(
    ["accelerate", "deepspeed", "env", "mpiexec", "mpirun", "nvidia-smi", "pip", "pip3", "python3", "sh", "torchrun"]
)  # Docker Hub has official images of other programs, such as python and bash
_IDENTIFIER = re.compile(r"[0-9a-f]{64}", re.ASCII)
_WILDCARD = re.compile(r"[*?\[]")


def looks_like_a_program(image: str) -> bool:
    """Whether a user probably left the image out, so that the program was taken for it: `kaji run python3 train.py`."""
    return image in _PROGRAMS or image.endswith((".py", ".sh"))


@dataclass(frozen=True, slots=True)
class ImageName:
    """The normalized name of an image. All spellings of one image result in equal names."""

    domain: str
    path: str
    tag: str
    """Empty only if there is a digest."""
    digest: str

    @property
    def repository(self) -> str:
        """Registry and path, without tag and digest: `docker.io/library/python`."""
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        """Return the full form of the name."""
        tag, digest = f":{self.tag}" if self.tag else "", f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


@lru_cache(maxsize=4096)
def parse_image_name(text: str) -> ImageName | None:
    """Parse an image name; None if container runtimes would not accept it."""
    has_domain = "/" in text and _is_domain(text.partition("/")[0])
    match = _NAME.fullmatch(text if has_domain else f"{DOCKER_HUB}/{text}")
    if match is None or match["domain"] is None or (not has_domain and _IDENTIFIER.fullmatch(text)):
        return None
    domain, path, tag, digest = (
        _registry_domain(match["domain"]),
        match["path"][1:],
        match["tag"] or "",
        match["digest"] or "",
    )
    if domain == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    if not tag and not digest:
        tag = "latest"
    return ImageName(domain, path, tag, digest) if len(f"{domain}/{path}") <= MAX_REPOSITORY_LENGTH else None


def full_image_name(text: str) -> str:
    """Return the name as Docker completes it: `docker.io/library/python:latest` for `python`.

    A text that is not a valid name is returned unchanged.
    """
    name = parse_image_name(text)
    return text if name is None else str(name)


@lru_cache(maxsize=1024)
def pattern_in_full(pattern: str) -> tuple[str, ...]:
    """Return the patterns of full names that a written pattern stands for. It is completed like an image name.

    `python:*` is on Docker Hub, since the image `python:3` is; `python` matches all of its tags. A pattern that begins
    with a wildcard matches images of any registry.
    """
    name = pattern
    if not _WILDCARD.match(pattern):
        first, slash, rest = pattern.partition("/")
        has_domain = bool(slash) and _is_domain(first)
        domain, path = (_registry_domain(first), rest) if has_domain else (DOCKER_HUB, pattern)
        of_library = "/" not in path and not (has_domain and _WILDCARD.search(_without_version(path)))
        name = f"{domain}/library/{path}" if domain == DOCKER_HUB and of_library else f"{domain}/{path}"
    names = [name]
    host, colon, port = name.partition("/")[0].rpartition(":")
    if colon and _WILDCARD.search(port) and "]" not in port:  # the default ports are written without a port
        names.append(f"{host}/{name.partition('/')[2]}")
    if _without_version(name) == name and not name.endswith("*"):
        names = [f"{name}{version}" for name in names for version in (":*", "@*")]
    return tuple(names)


def matches(pattern: str, image: ImageName) -> bool:
    """Whether the pattern matches the image."""
    return any(fnmatchcase(str(image), full_pattern) for full_pattern in pattern_in_full(pattern))


def pattern_fault(pattern: str) -> str:
    """Return why a pattern is refused; empty if it is valid."""
    name = _without_version(pattern)
    if not pattern or re.search(r"\s", pattern):
        return "a pattern cannot be empty or contain blanks"
    if any(letter.isupper() for letter in name.partition("/")[2] or name):
        return "the path of an image cannot contain upper-case letters"
    if "/" not in name and "." in name and _WILDCARD.search(name) and not _WILDCARD.match(name):
        return "a pattern without a slash matches images of Docker Hub only"
    return ""


def _without_version(name: str) -> str:
    """Return the name without tag and digest."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{re.split('[:@]', last, maxsplit=1)[0]}"


def _is_domain(first: str) -> bool:
    """Whether the first of several parts of a name is a registry, according to the grammar."""
    return "." in first or ":" in first or first == "localhost" or first != first.lower()


def _registry_domain(written: str) -> str:
    """Normalize the address of a registry: lower case, no default port, one name for Docker Hub.

    A host name without dots keeps its port or gets one, because without a port it would be parsed as part of the path.
    """
    host, port = written.lower(), ""
    if match := re.fullmatch(r"(.*):([0-9]+)", host):
        host, port = match[1], str(int(match[2]))
    if host.startswith("["):
        with suppress(ValueError):
            host = f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
    if port and int(port) in _DEFAULT_PORTS:
        port = ""
    if host in DOCKER_HUB_ALIASES and not port:
        host = DOCKER_HUB
    if not port and not ("." in host or ":" in host or host == "localhost"):
        port = "443"
    return f"{host}:{port}" if port else host
