"""Failures of the databases as Kajitori's errors. Temporary failures are Unavailable; the messages of all others say
what an operator has to repair."""

from __future__ import annotations

import sqlite3
import ssl

from kajitori.errors import Conflict, KajitoriError, StorageFull, Unavailable, Unsupported

_FULL = "make room on the database's disk; history continues by itself, and nothing is lost meanwhile"
_DAMAGED = "restore the history from a backup into an empty database: kaji restore FILE --history URL"
_PRIMARY = "use the address of the primary, or name all hosts in the URL with ?target_session_attrs=read-write"
_RIGHTS = 'an administrator of PostgreSQL can run: ALTER DATABASE "{database}" OWNER TO "{user}"'
_LOGIN = "check the user in the URL, the password (--history-password-file or $KAJI_HISTORY_PASSWORD) and pg_hba.conf"
_ENCODING = (
    "history needs a database in UTF8: createdb --encoding=UTF8 --template=template0 NAME; "
    "kaji backup and kaji restore move what the present one holds"
)
_TLS = "add the authority to the URL, ?sslrootcert=FILE, or use the host name that the certificate has"
_REPORT = "report it with the log of this process; another program may have changed the tables"

_POSTGRES: dict[str, tuple[type[KajitoriError], str]] = {
    # temporary failures
    "08": (Unavailable, ""),
    "25006": (Unavailable, _PRIMARY),
    "40": (Unavailable, ""),
    "53": (Unavailable, ""),
    "53300": (Unavailable, "raise max_connections of PostgreSQL: each server and controller opens up to 4"),
    "55": (Unavailable, ""),
    "57": (Unavailable, ""),
    "58030": (Unavailable, "look into the database's log"),
    # failures that an operator has to repair
    "53100": (StorageFull, _FULL),
    "28": (Unsupported, _LOGIN),
    "3D000": (Unsupported, "make it: createdb --encoding=UTF8 --template=template0 --owner=USER NAME"),
    "3F000": (Unsupported, _DAMAGED),
    "42501": (Unsupported, _RIGHTS),
    "42P01": (Unsupported, _DAMAGED),
    "42703": (Unsupported, _DAMAGED),
    "22021": (Unsupported, _ENCODING),
    "22P05": (Unsupported, _ENCODING),
    "XX001": (Unsupported, _DAMAGED),
    "XX002": (Unsupported, "an administrator of PostgreSQL can run: REINDEX DATABASE"),
    # another process changed the same row
    "23": (Conflict, ""),
}
"""Kind of failure and way out by SQLSTATE, or by the first two characters, the class."""

_SQLITE: dict[int, tuple[type[KajitoriError], str]] = {
    sqlite3.SQLITE_FULL: (StorageFull, _FULL),
    sqlite3.SQLITE_CORRUPT: (Unsupported, _DAMAGED),
    sqlite3.SQLITE_NOTADB: (Unsupported, _DAMAGED),
    sqlite3.SQLITE_READONLY: (Unsupported, "the user of this process must be able to write the file and its folder"),
    sqlite3.SQLITE_PERM: (Unsupported, "the user of this process must be able to write the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (Unsupported, "the user of this process must be able to write the file and its folder"),
    sqlite3.SQLITE_CONSTRAINT: (Conflict, ""),
    sqlite3.SQLITE_CONSTRAINT_TRIGGER: (KajitoriError, _REPORT),
    sqlite3.SQLITE_BUSY: (Unavailable, ""),
    sqlite3.SQLITE_LOCKED: (Unavailable, ""),
    sqlite3.SQLITE_IOERR: (Unavailable, "look into the log of the machine: its disk may be failing"),
    sqlite3.SQLITE_NOMEM: (Unavailable, ""),
}
"""Kind of failure and way out by SQLite's result code, or by its primary result code."""

_WORDS = {
    Unavailable: "is not available",
    StorageFull: "is full",
    Unsupported: "cannot be used",
    Conflict: "was changed at the same time",
}


def postgres_failure(where: str, error: BaseException, *, user: str = "USER") -> KajitoriError:
    """Return the error for a refusal of PostgreSQL or its client. `where` is the URL as messages show it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _history_error(where, error, Unsupported, _TLS)
    from asyncpg import TargetServerAttributeNotMatched  # here, so that SQLite does without asyncpg

    if isinstance(error, TargetServerAttributeNotMatched):
        return _history_error(where, error, Unavailable, _PRIMARY)
    state = getattr(error, "sqlstate", None)
    if state is None:
        return _history_error(where, error, Unavailable, "")
    kind, hint = _POSTGRES.get(state) or _POSTGRES.get(state[:2]) or (KajitoriError, _REPORT)
    return _history_error(where, error, kind, hint.format(database=where.rpartition("/")[2] or user, user=user))


def sqlite_failure(path: str, error: sqlite3.Error) -> KajitoriError:
    """Return the error for a refusal of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_ERROR and "no such" in str(error):
        return _history_error(path, error, Unsupported, _DAMAGED)
    if code is None:
        return _history_error(path, error, Unavailable, "")
    kind, hint = _SQLITE.get(code) or _SQLITE.get(code & 0xFF) or (KajitoriError, _REPORT)
    return _history_error(path, error, kind, hint)


def _history_error(where: str, error: BaseException, kind: type[KajitoriError], hint: str) -> KajitoriError:
    words = _WORDS.get(kind, "failed")
    return kind(f"the history in {where} {words}: {str(error) or type(error).__name__}", hint=hint)
