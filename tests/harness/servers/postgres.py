"""A PostgreSQL of the test's own, on a unix socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEBIAN = Path("/usr/lib/postgresql")
INSTALL = "apt-get install postgresql"
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=30")


def binaries() -> Path:
    """Return the folder of the newest PostgreSQL, or skip the test."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    return Path(on_path).parent


@contextmanager
def running_postgres() -> Iterator[str]:
    """Run a server and yield the URL of its database."""
    folder, owner = binaries(), _owner()
    with tempfile.TemporaryDirectory(prefix="pg") as made:
        root, data = Path(made), Path(made) / "data"
        if owner is not None:
            os.chown(root, owner.pw_uid, owner.pw_gid)
        _call(owner, folder / "initdb", "-D", data, "-A", "trust", "-N", "-U", "kaji", "-E", "UTF8", "--no-locale")
        options = " ".join(["-k", str(root), *(f"-c {each}" for each in FAST)])
        _call(owner, folder / "pg_ctl", "-D", data, "-w", "-s", "-l", root / "log", "-o", options, "start")
        try:
            yield f"postgresql://kaji@/postgres?host={root}"
        finally:
            _call(owner, folder / "pg_ctl", "-D", data, "-s", "-m", "immediate", "stop")


def _owner() -> pwd.struct_passwd | None:
    """Return the user that the server runs as if this process is root, which PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody: adduser --system postgres")


def _call(owner: pwd.struct_passwd | None, *command: str | Path) -> None:
    as_user = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", timeout=60, **as_user)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr.decode()
