"""Label and field selectors of lists and watches."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kajitori.core.kubernetes.selectors import FieldSelector, FieldTerm, LabelSelector
from kajitori.embedded.apiserver.causes import format_value
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.requests.options import ListOptions
from kajitori.embedded.apiserver.requests.target import Target
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.store import Record

NODE_FIELD = "spec.nodeName"
"""The field selector with which every kubelet selects its Pods."""
_COMMON_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Selection:
    """Label and field selectors on a kind's objects."""

    kind: Kind
    labels: LabelSelector
    fields: FieldSelector

    def __bool__(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def matches(self, record: Record) -> bool:
        """Return whether a stored object is selected."""
        if self.labels and not self.labels.matches(record.labels):
            return False
        return not self.fields or self.fields.matches(fields_of(self.kind, record))

    @property
    def name(self) -> str:
        """The only name that can match; empty if there is no such restriction."""
        return self.fields.exact("metadata.name") or ""


def selection(target: Target, options: ListOptions) -> Selection:
    """Return the selection of a request's options.

    Raises:
        StatusError: 400, a field that the kind's selectors do not know.
    """
    kind = target.kind
    fields = options.field_selector
    _check_known(kind, fields)
    if target.name:
        fields = FieldSelector((*fields.terms, FieldTerm("metadata.name", target.name)))
    return Selection(kind, options.label_selector, fields)


def fields_of(kind: Kind, record: Record) -> dict[str, str]:
    """Return the values of an object for field selectors; computed once."""
    if record.fields is None:
        own = kind.strategy.fields(kind.decode(record.decode()))
        record.fields = {"metadata.name": record.name, "metadata.namespace": record.namespace, **own}
    return record.fields


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _OnNode(msgspec.Struct):
    spec: _Spec


_decode_node = msgspec.json.Decoder(_OnNode).decode


def node_of(pod: Record) -> str:
    """Return the node of a stored Pod; empty if it has none."""
    return _decode_node(pod.value).spec.node_name


def _check_known(kind: Kind, fields: FieldSelector) -> None:
    for term in fields.terms:
        if _is_known(kind, term.field):
            continue
        if _has_own_fields(kind):
            raise StatusError.bad_request(f"field label not supported: {term.field}")
        only = 'only "metadata.name", "metadata.namespace"'
        raise StatusError.bad_request(f"{format_value(term.field)} is not a known field selector: {only}")


def _known_fields(kind: Kind) -> tuple[str, ...]:
    blank = {"metadata": {"name": "", "namespace": ""}, "spec": {}, "status": {}}
    return (*_COMMON_FIELDS, *kind.strategy.fields(blank))


def _is_known(kind: Kind, field: str) -> bool:
    # A kind without fields of its own accepts both, even if it is not namespaced.
    no_namespace = not kind.resource.namespaced and _has_own_fields(kind)
    return field in _known_fields(kind) and (field != "metadata.namespace" or not no_namespace)


def _has_own_fields(kind: Kind) -> bool:
    return kind.custom is not None or len(_known_fields(kind)) > len(_COMMON_FIELDS)
