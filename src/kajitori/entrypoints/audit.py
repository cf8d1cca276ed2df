"""`kaji audit clients`: report which clients load an API server, with the caller's own rights."""

from __future__ import annotations

import asyncio
import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kajitori.cluster.nodes.client_evidence import Evidence, evidence_of
from kajitori.configuration.options.operators import AuditOptions
from kajitori.core.protection.api_clients import ClientRequests, Report, report, requests_by_client
from kajitori.entrypoints.process import existing
from kajitori.errors import Fault, InvalidInput
from kajitori.kube.audit_log import AuditLog

STANDARD_INPUT = Path("-")
SHORT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Audit:
    """The report and the evidence behind it."""

    report: Report
    log: ClientRequests | None
    """Requests in the audit log; None without a log."""
    notes: tuple[str, ...]
    """Reasons why parts of the evidence are missing or weak."""


def audit_clients(options: AuditOptions) -> Audit:
    """Read the log, query the API server, and make the report. Raises InvalidInput if the log can't be read."""
    known, notes = _read(options.audit_log) if options.audit_log else (None, [])
    evidence = asyncio.run(_read_evidence(options))
    found = report(
        known,
        evidence.daemon_sets,
        evidence.open_watches,
        nodes=evidence.nodes,
        kubelets=evidence.kubelets,
        planned_nodes=options.planned_nodes,
    )
    return Audit(found, known, (*notes, *evidence.notes))


async def _read_evidence(options: AuditOptions) -> Evidence:
    async with existing(options.kubeconfig, options.context) as client:
        return await evidence_of(client)


def _read(paths: Sequence[Path]) -> tuple[ClientRequests, list[str]]:
    log = AuditLog(_lines_of(paths))
    known = requests_by_client(log.requests())
    if not known.requests:
        raise InvalidInput(
            [
                Fault(
                    "--audit-log",
                    "holds no requests",
                    " ".join(map(str, paths)),
                    "name the file of kube-apiserver's --audit-log-path; its policy has to log at level Metadata",
                )
            ]
        )
    notes = [f"{log.unreadable} lines of the log are no audit events"] if log.unreadable else []
    if known.seconds < SHORT_SECONDS:
        notes.append(f"the log covers {known.seconds:.0f} s: one-time requests of starting programs weigh heavily")
    return known, notes


def _lines_of(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            if path == STANDARD_INPUT:
                yield from sys.stdin.buffer
            elif path.suffix == ".gz":
                with gzip.open(path) as packed:
                    yield from packed
            else:
                with path.open("rb") as plain:
                    yield from plain
        except (OSError, EOFError, zlib.error) as error:
            message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise InvalidInput([Fault("--audit-log", message, str(path), "check the path")]) from error
