"""The Run, our custom resource: its path on the API server, and its objects as they are read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from kajitori.core.naming import names
from kajitori.core.spec.reading.status_check import damage, damaged
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.kube.metadata import ObjectMeta, Wire
from kajitori.kube.resources import Resource

RUNS = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND)


class RunObject(Wire, frozen=True):
    """A Run. `spec` is the spec as it is stored, in bytes; `core.spec.run` reads it.

    A run with an invalid status is read as one that has ended for that reason: it can be deleted and resumed, and the
    controller ends its members as for any ended run.
    """

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RunStatus | None = None

    @property
    def current_status(self) -> RunStatus:
        """The run's status. Until one is written, the status of a run that waits since its creation."""
        return self.status or RunStatus(queued_at=self.metadata.creation_timestamp)

    @property
    def owner(self) -> str:
        """The user who submitted the run; empty if the Run has no owner annotation."""
        return self.metadata.annotations.get(names.ANNOTATION_OWNER, "")

    def __post_init__(self) -> None:
        why = damage(self.status) if self.status is not None else ""
        if why:
            raise ValueError(why)

    @staticmethod
    def repaired(document: dict[str, Any], why: str) -> dict[str, Any]:
        """Return the document with a readable status in place of an invalid one."""
        status: Any = document.get("status")
        match status:
            case {"attempt": {"template": dict() as template} as attempt}:  # the first format of stored templates
                earlier = {**status, "attempt": {**attempt, "template": template_text(template)}}
                with suppress(msgspec.ValidationError):
                    if not damage(msgspec.convert(earlier, RunStatus)):
                        return {**document, "status": earlier}
        return {**document, "status": to_document(damaged(status, why))}
