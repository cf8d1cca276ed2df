"""Host names of members, and OpenSSH's configuration for them."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kajitori.configuration.private_files import write_private
from kajitori.errors import InvalidInput

SUFFIX = ".kaji"
_FOLDER = "kajitori"
_INCLUDE = f"Include {_FOLDER}/config"
_ABOUT = (
    "# Hosts that are members of runs. `kaji ssh-config` writes this file, and `kaji ssh-config --remove` removes it.\n"
)


@dataclass(frozen=True, slots=True)
class Host:
    """A member as OpenSSH names it: `[RANK.]RUN[.NAMESPACE].kaji`."""

    run: str
    namespace: str = ""
    """Empty for the namespace that commands use."""
    rank: int = 0

    @property
    def name(self) -> str:
        """The host name."""
        rank = f"{self.rank}." if self.rank else ""
        namespace = f".{self.namespace}" if self.namespace else ""
        return f"{rank}{self.run}{namespace}{SUFFIX}"


def read_host(text: str) -> Host:
    """Parse a host name. Names of runs begin with a letter, so a number is a rank. Raises InvalidInput."""
    words = text.removesuffix(SUFFIX).split(".")
    rank = int(words.pop(0)) if words[0].isdecimal() else 0
    if not 1 <= len(words) <= 2 or not all(words):
        hint = f"write RUN{SUFFIX}, or RANK.RUN.NAMESPACE{SUFFIX}"
        raise InvalidInput.one("HOST", f"{text!r} names no member of a run", value=text, hint=hint)
    return Host(words[0], words[1] if len(words) == 2 else "", rank)


def home_of_account() -> Path:
    """Return the home folder in which OpenSSH looks for its configuration: that of the account, whatever $HOME says."""
    try:
        import pwd
    except ImportError:  # on Windows
        return Path.home()
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # an account without an entry, as in a container
        return Path.home()


class SshFolder:
    """The files of `~/.ssh/kajitori`: the key of the server, the hosts' known keys, and a configuration."""

    def __init__(self, home: Path) -> None:
        """`home`: the home folder of the user."""
        self._ssh = home / ".ssh"
        self._folder = self._ssh / _FOLDER
        self.key = self._folder / "host_key"
        self.known_hosts = self._folder / "known_hosts"
        self.configuration = self._folder / "config"
        self.main = self._ssh / "config"
        """The user's own configuration of OpenSSH."""

    def make_key(self) -> None:
        """Make the server's key and the known hosts if they are missing. Of several processes at once, one wins.

        Raises:
            OSError: they cannot be written.
        """
        from asyncssh import generate_private_key, read_private_key

        if self.key.exists() and self.known_hosts.exists():
            return
        self._ssh.mkdir(mode=0o700, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        new = self._folder / f".host_key.{os.getpid()}"
        write_private(new, generate_private_key("ssh-ed25519").export_private_key())
        with contextlib.suppress(FileExistsError):
            os.link(new, self.key)
        new.unlink()
        public = read_private_key(self.key).export_public_key().decode().strip()
        write_private(self.known_hosts, f"*{SUFFIX} {public}\n".encode())

    def options(self, proxy_command: Sequence[str]) -> list[tuple[str, str]]:
        """Return the options of OpenSSH's client for members. `proxy_command` starts the server for a host."""
        quoted = " ".join(_quote_for_proxy_command(word) for word in proxy_command)
        return [
            ("ProxyCommand", f"{quoted} %h"),
            ("UserKnownHostsFile", f'"{self.known_hosts}"'),
            ("GlobalKnownHostsFile", "none"),
            ("StrictHostKeyChecking", "yes"),
            ("PreferredAuthentications", "none"),  # the server is a process of the same user
            ("Ciphers", "aes128-gcm@openssh.com,aes256-gcm@openssh.com"),  # the fastest of this server
            ("Compression", "no"),
        ]

    def text(self, proxy_command: Sequence[str]) -> str:
        """Return the configuration of the hosts."""
        # Both are refused. A user who wants them for all hosts would be told so at each connection.
        options = [*self.options(proxy_command), ("ForwardAgent", "no"), ("ForwardX11", "no")]
        lines = [f"    {name} {value}\n" for name, value in options]
        return "".join([_ABOUT, f"Host *{SUFFIX}\n", *lines])

    def install(self, proxy_command: Sequence[str]) -> bool:
        """Write the configuration and include it in the user's own. Return whether the user's own was changed.

        Raises:
            OSError: a file cannot be read or written.
        """
        self.make_key()
        write_private(self.configuration, self.text(proxy_command).encode())
        before = self._main_text()
        if _INCLUDE in before.splitlines():
            return False
        # An Include further down would belong to the Host above it.
        self._write_main(f"{_INCLUDE}\n\n{before}" if before else f"{_INCLUDE}\n")
        return True

    def remove(self) -> bool:
        """Remove all of it. Return whether there was anything.

        Raises:
            OSError: a file cannot be changed.
        """
        found = self._folder.exists()
        before = self._main_text()
        if _INCLUDE in before.splitlines():
            first, _, rest = before.partition(f"{_INCLUDE}\n")
            left = first + rest.removeprefix("\n")
            if left or self.main.is_symlink():
                self._write_main(left)
            else:
                self.main.unlink()
            found = True
        for path in (self.configuration, self.known_hosts, self.key):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        return found

    def _main_text(self) -> str:
        try:
            return self.main.read_text()
        except FileNotFoundError:
            return ""

    def _write_main(self, text: str) -> None:
        path = self.main.resolve()  # may be a link into a folder of dotfiles
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        write_private(path, text.encode())
        path.chmod(mode)


def _quote_for_proxy_command(word: str) -> str:
    """Return a word for a ProxyCommand: a shell reads it after OpenSSH has replaced `%` sequences."""
    quoted = subprocess.list2cmdline([word]) if sys.platform == "win32" else shlex.quote(word)
    return quoted.replace("%", "%%")
