"""OpenSSH's configuration for members."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kajitori.cli.context import Cli
from kajitori.cli.ssh import configuration
from kajitori.cli.ssh.configuration import Host, SshFolder, read_host
from kajitori.cli.verbs.members import ssh_config
from kajitori.errors import InvalidInput

PROXY = ["/my venv/bin/python", "-m", "kajitori.cli", "ssh", "--proxy"]


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("bert.kaji", Host("bert")),
        ("3.bert.kaji", Host("bert", rank=3)),
        ("bert.vision.kaji", Host("bert", "vision")),
        ("12.bert.vision.kaji", Host("bert", "vision", 12)),
    ],
)
def test_host_names_are_read_as_they_are_written(text: str, host: Host) -> None:
    assert read_host(text) == host
    assert host.name == text


@pytest.mark.parametrize("text", ["a.b.c.kaji", "3.kaji", ".kaji", "a..kaji"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="names no member"):
        read_host(text)


def test_the_users_own_configuration_is_kept(tmp_path: Path) -> None:
    folder = SshFolder(tmp_path)
    own = "Host other\n    User me\n"
    (tmp_path / ".ssh").mkdir()
    folder.main.write_text(own)
    folder.main.chmod(0o644)
    assert folder.install(PROXY)
    assert folder.main.read_text() == f"Include kajitori/config\n\n{own}"
    assert folder.main.stat().st_mode & 0o777 == 0o644
    assert not folder.install(PROXY)
    assert folder.remove()
    assert folder.main.read_text() == own
    assert [path.name for path in (tmp_path / ".ssh").iterdir()] == ["config"]
    assert not folder.remove()


def test_nothing_is_left_of_a_configuration_that_was_made_for_members(tmp_path: Path) -> None:
    """An empty file stayed behind."""
    folder = SshFolder(tmp_path)
    assert folder.install(PROXY) and folder.remove()
    assert not list((tmp_path / ".ssh").iterdir())


def test_nobody_else_can_read_the_key(tmp_path: Path) -> None:
    folder = SshFolder(tmp_path)
    folder.install(PROXY)
    key = folder.key.read_bytes()
    folder.make_key()
    assert folder.key.read_bytes() == key
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / ".ssh", folder.key.parent, folder.key)} == {0}


def test_words_of_the_proxy_command_are_quoted(tmp_path: Path) -> None:
    text = SshFolder(tmp_path).text(["/my venv/50%/python", "ssh"])
    assert "    ProxyCommand '/my venv/50%%/python' ssh %h\n" in text


def test_a_configuration_that_openssh_does_not_look_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH takes the home folder of the account, so `ssh RUN.kaji` did not work with another $HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    said = CliRunner().invoke(ssh_config.command, obj=Cli())
    assert f"ssh -F {tmp_path}/.ssh/config RUN.kaji" in said.output
    monkeypatch.setattr(configuration, "home_of_account", lambda: tmp_path)
    assert "Try: ssh RUN.kaji" in CliRunner().invoke(ssh_config.command, obj=Cli()).output
