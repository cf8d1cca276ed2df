"""Query parameters of requests (meta.k8s.io ListOptions, CreateOptions …), checked as kube-apiserver checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kajitori.core.kubernetes.selectors import FieldSelector, LabelSelector, SelectorError, parse_fields, parse_labels
from kajitori.embedded.apiserver.causes import (
    Cause,
    forbidden,
    format_value,
    invalid,
    not_supported,
    required,
    too_long,
)
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.status import StatusError

Query = Mapping[str, str]
T = TypeVar("T")
_INTEGER = re.compile(r"[+-]?\d+")
_MANAGER_MAX_LENGTH = 128


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or watch."""

    watch: bool = False
    limit: int = 0
    continue_token: str = ""
    label_selector: LabelSelector = field(default_factory=LabelSelector)
    field_selector: FieldSelector = field(default_factory=FieldSelector)
    resource_version: str = ""
    resource_version_match: str = ""
    timeout_seconds: int | None = None
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a create, update or patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    """"Orphan", "Foreground", "Background", or "" for the default."""
    orphan_dependents: bool | None = None
    dry_run: bool = False


def parse_list(query: Query) -> ListOptions:
    """Return the options of a list or watch.

    Raises:
        StatusError: 400 or 422.
    """
    options = ListOptions(
        watch=_parse_boolean(query.get("watch", "")),
        limit=_parse_integer(query.get("limit", "")) or 0,
        continue_token=query.get("continue", ""),
        label_selector=_parse_selector(parse_labels, query.get("labelSelector", "")),
        field_selector=_parse_selector(parse_fields, query.get("fieldSelector", "")),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        timeout_seconds=_parse_integer(query.get("timeoutSeconds", "")),
        allow_bookmarks=_parse_boolean(query.get("allowWatchBookmarks", "")),
        send_initial_events=_parse_boolean(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    causes = _watch_faults(options) if options.watch else _list_faults(options)
    if causes:
        raise StatusError.invalid("meta.k8s.io", "ListOptions", "", causes)
    return options


def _list_faults(options: ListOptions) -> list[Cause]:
    match, name = options.resource_version_match, "resourceVersionMatch"
    causes = []
    if options.send_initial_events is not None:
        causes.append(forbidden("sendInitialEvents", "only for watches"))
    if match and not options.resource_version:
        causes.append(forbidden(name, "only together with resourceVersion"))
    if match and options.continue_token:
        causes.append(forbidden(name, "not together with continue"))
    if match not in ("", "Exact", "NotOlderThan"):
        causes.append(not_supported(name, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and options.resource_version == "0":
        causes.append(forbidden(name, "must not be Exact for resourceVersion 0"))
    return causes


def _watch_faults(options: ListOptions) -> list[Cause]:
    match, name = options.resource_version_match, "resourceVersionMatch"
    if options.send_initial_events is None:
        return [forbidden(name, "only together with sendInitialEvents")] if match else []
    causes = [] if match == "NotOlderThan" else [not_supported(name, match, ("NotOlderThan",))]
    if options.continue_token:
        causes.append(forbidden("continue", "not together with sendInitialEvents"))
    return causes


def parse_write(query: Query, kind: str, *, apply: bool = False) -> WriteOptions:
    """Return the options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions.

    Raises:
        StatusError: 400 or 422.
    """
    causes = []
    manager = query.get("fieldManager", "")
    validation = query.get("fieldValidation", "")
    forced = query.get("force", "")
    dry_run, faults = _dry_run([query["dryRun"]] if query.get("dryRun") else [])
    if apply and not manager:
        causes.append(required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not apply and forced:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    if len(manager) > _MANAGER_MAX_LENGTH:
        causes.append(too_long("fieldManager", _MANAGER_MAX_LENGTH))
    elif not manager.isprintable():
        causes.append(invalid("fieldManager", manager, "must have printable characters only"))
    causes += faults
    if validation not in ("", "Ignore", "Warn", "Strict"):
        causes.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if causes:
        raise StatusError.invalid("meta.k8s.io", kind, "", causes)
    return WriteOptions(dry_run, manager, validation or "Warn", _parse_boolean(forced))


def parse_delete(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Return the options of a deletion: from the body, or from the query if there is no body.

    Raises:
        StatusError: 400 or 422.
    """
    if body is None:
        body = _delete_query(query)
    causes = []
    grace = body.get("gracePeriodSeconds")
    propagation = body.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    preconditions = body.get("preconditions") or {}
    for name, value, kind, expected in (
        ("gracePeriodSeconds", grace, int | None, "a whole number"),
        ("propagationPolicy", propagation, str | None, "text"),
        ("orphanDependents", orphan, bool | None, "true or false"),
        ("preconditions", preconditions, Mapping, "an object"),
    ):
        if not isinstance(value, kind) or (name == "gracePeriodSeconds" and isinstance(value, bool)):
            raise StatusError.bad_request(f"{name}: expected {expected}, not {type_name(value)}")
    if propagation is not None:
        name = "propagationPolicy"
        if propagation not in ("Foreground", "Background", "Orphan"):
            causes.append(not_supported(name, propagation, ("Foreground", "Background", "Orphan")))
        if orphan is not None:
            causes.append(invalid(name, propagation, "orphanDependents and deletionPropagation cannot be both set"))
    given = body.get("dryRun") or []
    if not isinstance(given, list):
        raise StatusError.bad_request(f"dryRun: expected a list, not {type_name(given)}")
    dry_run, faults = _dry_run(given)
    causes += faults
    if causes:
        raise StatusError.invalid("meta.k8s.io", "DeleteOptions", "", causes)
    if grace is not None and grace < 0:
        grace = 1
    return DeleteOptions(
        grace, preconditions.get("uid"), preconditions.get("resourceVersion"), propagation or "", orphan, dry_run
    )


def _delete_query(query: Query) -> dict[str, Any]:
    read: dict[str, Callable[[str], Any]] = {
        "gracePeriodSeconds": _parse_integer,
        "propagationPolicy": str,
        "orphanDependents": _parse_boolean,
        "dryRun": lambda text: [text],
    }
    return {name: parse(query[name]) for name, parse in read.items() if query.get(name)}


def _dry_run(values: list[str]) -> tuple[bool, list[Cause]]:
    if not values:
        return False, []
    if values != ["All"]:
        return False, [not_supported("dryRun", values, ("All",))]
    return True, []


def _parse_selector(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except SelectorError as fault:
        raise StatusError.bad_request(fault.message) from fault


def _parse_integer(text: str) -> int | None:
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise StatusError.bad_request(f"{format_value(text)} is not a whole number")
    return int(text)


def _parse_boolean(text: str) -> bool:
    # As `Convert_Slice_string_To_bool` of apimachinery: every other text is true.
    return text.lower() not in ("", "false", "0")
