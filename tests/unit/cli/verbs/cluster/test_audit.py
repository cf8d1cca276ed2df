"""`kaji audit clients`: files and options that are refused before the cluster is asked."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli


def audit(*options: str) -> Result:
    return CliRunner().invoke(kaji, ["audit", "clients", *options], obj=Cli(), prog_name="kaji")


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
