"""The file of `kaji run -f`: a Run manifest, or the bare spec of one, in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kajitori.core.naming.names import API_VERSION, KIND
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault, InvalidInput


@dataclass(frozen=True)
class Manifest:
    spec: dict[str, Any]
    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    """Faults outside of the spec; the fields that they name are left out."""


def read_manifest(text: str, file: str) -> Manifest:
    """Return the run that a file describes. Raises InvalidInput with every fault if the file holds no spec."""
    document = _load_yaml(text, file)
    if not isinstance(document, Mapping):
        hint = "write image: …, or a whole manifest with apiVersion, kind, metadata and spec"
        raise InvalidInput.one(file, "holds no mapping of fields", hint=hint)
    if "kind" not in document and "apiVersion" not in document and "spec" not in document:
        return Manifest(dict(document))
    faults: list[Fault] = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != wanted:
            found = f"{document[key]!r:.80} is not {wanted}" if key in document else "is required"
            faults.append(Fault(f"{file}: {key}", found, hint=f"write {key}: {wanted}"))
    for key in sorted(map(str, document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"})):
        hint = did_you_mean(key, ("apiVersion", "kind", "metadata", "spec"))
        faults.append(Fault(f"{file}: {key}", f"there is no field {key!r:.80}", hint=hint, code="UnknownField"))
    metadata, spec = document.get("metadata") or {}, document.get("spec")
    if not isinstance(spec, Mapping):
        faults.append(
            Fault(
                f"{file}: spec",
                "must be a mapping of fields",
                hint="write at least an image, such as image: python:3.11",
            )
        )
    if not isinstance(metadata, Mapping):
        faults.append(Fault(f"{file}: metadata", "must be a mapping of fields"))
        metadata = {}
    wrong = [key for key in ("name", "namespace") if not isinstance(metadata.get(key, ""), str)]
    faults += [Fault(f"{file}: metadata.{key}", "must be text", hint="write it in quotes") for key in wrong]
    labels = metadata.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(word, str) for word in (*labels, *labels.values())):
        faults.append(Fault(f"{file}: metadata.labels", "must be a mapping of texts", hint="write values in quotes"))
        labels = {}
    if not isinstance(spec, Mapping):
        raise InvalidInput(faults)
    name, namespace = (None if key in wrong else metadata.get(key) for key in ("name", "namespace"))
    return Manifest(dict(spec), name, namespace, dict(labels), tuple(faults))


def _load_yaml(text: str, file: str) -> object:
    import yaml

    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}: line {mark.line + 1}, column {mark.column + 1}" if mark is not None else file
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidInput.one(where, f"not YAML: {problem}", hint="check indentation and quotes") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput.one(file, f"a value cannot be read: {str(error)[:80]}") from None
    if len(documents) != 1:
        raise InvalidInput.one(file, f"holds {len(documents)} documents", hint="one run a file")
    return documents[0]
