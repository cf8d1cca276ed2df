"""`kaji audit clients`: files and options that are refused before the cluster is asked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.helpers.output_schemas import check_output

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli
from kajitori.core.protection.api_clients import ClientRequests, DaemonSet, Growing, Large, Report, Watched
from kajitori.entrypoints.audit import Audit


def audit(*options: str) -> Result:
    return CliRunner().invoke(kaji, ["audit", "clients", *options], obj=Cli(), prog_name="kaji")


@pytest.mark.parametrize("log", [ClientRequests({}, 9, 60.0), None], ids=["with a log", "without a log"])
def test_the_report_as_json_fits_its_schema(monkeypatch: pytest.MonkeyPatch, log: ClientRequests | None) -> None:
    growing = Growing("spy", ("ops/spy",), 3, 60.0, 1.0, ("pods",), 7500.0, 7500.0, ("ask for less",))
    suspect = DaemonSet("ops", "idle", "default", 3, ("pods",))
    report = Report(3, 7500, (growing,), (Large("alice", 0.5, 0.1),), (suspect,), (Watched("pods", 6, 3),))
    monkeypatch.setattr("kajitori.entrypoints.audit.audit_clients", lambda _: Audit(report, log, ("a note",)))
    document = json.loads(audit("-o", "json").stdout)
    check_output(document, "verbs/audit clients", complete=True)
    assert document["growing"][0]["requestsPerSecondThen"] == 7500.0
    assert (document["log"] is None) == (log is None)


@pytest.mark.parametrize("text", ["", "no audit log\n"])
def test_a_file_without_requests_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "audit.log"
    file.write_text(text)
    result = audit("--audit-log", str(file))
    assert result.exit_code == 2
    assert "--audit-log: holds no requests" in result.stderr
    assert "name the file of kube-apiserver's --audit-log-path" in result.stderr


@pytest.mark.parametrize(
    "content",
    [b"plain", gzip.compress(b"{}\n")[:-9], gzip.compress(b"{}\n")[:10] + b"\xff" * 9],
    ids=["plain", "cut off", "spoiled"],
)
def test_a_file_that_is_no_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    """So is an incomplete one, which is still being compressed."""
    file = tmp_path / "audit.log.gz"
    file.write_bytes(content)
    result = audit("--audit-log", str(file))
    assert (result.exit_code, "--audit-log: cannot be read" in result.stderr) == (2, True)


def test_all_faults_of_the_options_are_reported_at_once() -> None:
    result = audit("--audit-log", "/nowhere", "--nodes", "0")
    assert result.exit_code == 2
    assert "there is no file /nowhere" in result.stderr and "0 is below 1" in result.stderr
