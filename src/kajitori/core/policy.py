"""The policy file: reading it, and the policies that exist without one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from pydantic import ValidationError

from kajitori.core.policy_model import Policy
from kajitori.core.validation import faults_of
from kajitori.errors import Fault, InvalidInput

__all__ = ["Policy", "default_policy", "own_machine_policy", "parse_policy", "with_first_step"]

MAX_POLICY_BYTES = 256 * 1024
_DEEPEST = 20


def default_policy() -> Policy:
    """The policy of a cluster whose operators wrote none: no root, no privileges, no folders of the nodes."""
    return Policy()


def own_machine_policy(home: str, *, mounts: bool, checkpoint_root: str, folders: Sequence[str] = ()) -> Policy:
    """The policy of `kaji up`: one's own machine, where programs run as oneself and one's own folders may be mounted.

    `home` and `folders` are the folders that may be; `mounts` tells whether this machine can mount anything at all;
    checkpoints lie below `checkpoint_root`.
    """
    document: dict[str, Any] = {
        "mounts": {"hostPaths": list(dict.fromkeys([home, *folders])), "ownPathOnly": not mounts},
        "checkpoint": {"kind": "folder", "root": checkpoint_root, "deletable": True},
        "security": {
            "allowRoot": True,
            "allowHostNetwork": True,
            "allowPrivilegeEscalation": True,
            "dropCapabilities": [],
            "seccompProfile": "",
        },
        "memory": {"sampleEvery": "10s"},
        "start": {"deadline": "2m", "pause": "2s", "longestPause": "1m"},
    }
    return parse_policy(document)


def with_first_step(policy: Policy, image: str, server: str) -> Policy:
    """The policy, where it says nothing of the first step of members with one: from this image, asking this server."""
    if policy.start.image is not None:
        return policy
    return policy.model_copy(update={"start": policy.start.model_copy(update={"image": image, "server": server})})


def parse_policy(text_or_document: str | bytes | Mapping[str, Any]) -> Policy:
    """The policy that a YAML text or a document says.

    Raises InvalidInput with every fault at once, each with its path and, for a text, its line. An empty text is the
    default policy. Aliases are not read: a small text could stand for an endless one.
    """
    if isinstance(text_or_document, Mapping):
        document: object = dict(text_or_document)
        lines: dict[tuple[str | int, ...], int] = {}
        faults: list[Fault] = []
    else:
        document, lines, faults = _read_yaml(text_or_document)
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise InvalidInput([Fault("policy", "must be a mapping of sections such as defaults, ceilings and volumes")])
    try:
        policy = Policy.model_validate(document)
    except ValidationError as error:
        located = zip(faults_of(error, Policy, ""), error.errors(include_url=False), strict=True)
        faults += [_with_line(fault, tuple(each["loc"]), lines) for fault, each in located]
    else:
        if not faults:
            return policy
    raise InvalidInput(faults)


def _with_line(fault: Fault, location: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]) -> Fault:
    if location and location[-1] == "[key]":
        location = location[:-1]
    while location and location not in lines:
        location = location[:-1]
    if not location:
        return fault if fault.field else replace(fault, field="policy", value="")
    return replace(fault, field=f"{fault.field} (line {lines[location]})")


def _read_yaml(text: str | bytes) -> tuple[object, dict[tuple[str | int, ...], int], list[Fault]]:
    """The document, the line on which each path stands, and what is wrong with the YAML itself."""
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > MAX_POLICY_BYTES:
        message = f"the policy has {len(raw)} bytes; {MAX_POLICY_BYTES} are allowed"
        raise InvalidInput([Fault("policy", message, code="TooLarge")])
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(raw, loader_class)
        loader = loader_class(raw)
        try:
            node = loader.get_single_node()
            lines: dict[tuple[str | int, ...], int] = {}
            faults = list(_walk(node, (), lines)) if node is not None else []
            document = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput([_yaml_fault(error)]) from None
    except (ValueError, TypeError) as error:
        raise InvalidInput([Fault("policy", f"a value cannot be read: {error}")]) from None
    return document, lines, faults


def _check_events(raw: bytes, loader_class: Any) -> None:
    """Raises InvalidInput for what must not reach the composer, which recurses: aliases and endless nesting."""
    depth = 0
    for event in yaml.parse(raw, Loader=loader_class):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            raise InvalidInput([Fault(f"line {line}", f"*{event.anchor} is an alias", hint="write it out")])
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InvalidInput([Fault(f"line {line}", f"nested deeper than {_DEEPEST} levels")])


def _walk(node: yaml.Node, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]) -> Iterator[Fault]:
    if isinstance(node, yaml.MappingNode):
        keys: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in keys:
                message = f"{key!r:.80} stands here twice; first on line {keys[key]}"
                yield Fault(f"{_dotted((*path, key))} (line {line})", message, hint="keep one of them")
            keys.setdefault(key, line)
            lines[(*path, key)] = line
            yield from _walk(value_node, (*path, key), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            yield from _walk(item, (*path, index), lines)


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path)


def _yaml_fault(error: Exception) -> Fault:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "policy"
    problem = getattr(error, "problem", None) or re.sub(r"\s+", " ", str(error))[:200]
    return Fault(where, f"not YAML: {problem}", hint="check indentation and quotes")
