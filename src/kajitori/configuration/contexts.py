"""Contexts of servers at which this user has signed in. Each is a file with mode 0600, since it has the tokens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from kajitori.configuration.private_files import exclusive_lock, write_private
from kajitori.errors import Busy, InvalidInput, Unavailable

LOCK_SECONDS = 45.0
"""How long to wait for another process that refreshes the tokens: longer than it waits for the provider."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class SignedIn:
    """A server, and how this user is signed in there."""

    server: str
    namespace: str = ""
    user: str = ""
    ca: str = ""
    """The authorities (PEM) that signed the server's certificate; empty: those of this machine."""
    issuer: str = ""
    """The OpenID provider; empty for a token that was given (`kaji login --token-stdin`)."""
    issuer_ca: str = ""
    client_id: str = ""
    scopes: str = ""
    token: str = field(default="", repr=False)
    """The token for the server: an ID token, or a given token."""
    refresh_token: str = field(default="", repr=False)
    expires: float = 0.0
    """When `token` expires, in seconds since the epoch; 0: it does not say."""


def folder() -> Path:
    """Return the folder of this user's contexts."""
    import platformdirs  # imported only by commands that look for a server

    return Path(platformdirs.user_config_dir("kajitori")) / "contexts"


def path_of(name: str, where: Path | None = None) -> Path:
    """Return the file of a context. Raises InvalidInput for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, dots and dashes"
        raise InvalidInput.one("NAME", f"{name!r:.80} cannot name a context", value=name, hint=hint)
    return (where or folder()) / f"{name}.json"


def read(path: Path) -> SignedIn:
    """Return a context. Raises Unavailable if its file is missing, damaged or not this user's."""
    again = "sign in again: kaji login URL"
    try:
        if path.stat().st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise Unavailable(f"{path} belongs to somebody else", hint=again)
        found = json.loads(path.read_bytes())
        known = {one.name for one in fields(SignedIn)}
        return SignedIn(**{name: value for name, value in found.items() if name in known})
    except OSError as error:
        raise Unavailable(f"{path} can't be read: {error.strerror}", hint=again) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Unavailable(f"{path} is damaged", hint=again) from error


def write(path: Path, context: SignedIn) -> None:
    """Store a context so that only this user can read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, json.dumps(asdict(context), indent=1).encode())


def forget(path: Path) -> None:
    """Delete a context."""
    path.unlink(missing_ok=True)
    path.with_suffix(".lock").unlink(missing_ok=True)


def all_contexts(where: Path | None = None) -> dict[str, SignedIn]:
    """Return the readable contexts by their names."""
    found = {}
    for file in sorted((where or folder()).glob("*.json")):
        try:
            found[file.stem] = read(file)
        except Unavailable:
            continue
    return found


@contextmanager
def changing(path: Path) -> Iterator[SignedIn]:
    """Lock a context, and yield its present contents. A refresh token is valid once, so one process at a time uses it.

    Raises:
        Busy: another process did not finish in time.
    """
    with exclusive_lock(path.with_suffix(".lock"), LOCK_SECONDS) as is_ours:
        if not is_ours:
            raise Busy("another kaji command is still refreshing the sign-in", hint="try again")
        yield read(path)
