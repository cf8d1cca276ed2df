"""What happened while a backup was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kajitori.backup.archive import About, writing
from kajitori.backup.restoring import changes_during_backup
from kajitori.core.spec.reasons import Phase

NOON = 1795262400
"""2026-11-21T12:00:00Z in seconds since 1970."""


def record(uid: str, **changes: Any) -> bytes:
    run = {
        "metadata": {"name": uid, "namespace": "vision", "uid": uid},
        "spec": {},
        "status": {"phase": "Succeeded", "finishedAt": "2026-11-21T12:00:01Z", "members": {}},
    }
    plain = {
        "uid": uid,
        "removed_at": None,
        "ended_at": None,
        "seen_at": 0,
        "document": msgspec.json.encode(run).decode(),
    }
    return msgspec.json.encode(plain | changes) + b"\n"


def test_history_knows_what_happened_after_the_runs_were_read(tmp_path: Path) -> None:
    """A run that ended meanwhile is not started again. What history recorded before is older than the run's object: a
    run may have been resumed since."""
    about = About(version="0.1.0", taken_at="2026-11-21T12:00:00Z", cluster="", history={"id": "h"})
    with writing(tmp_path / "b.tar.zst", about) as writer:
        objects = [{"metadata": {"uid": uid}} for uid in ("gone", "ended", "resumed", "runs")]
        writer.add("cluster/runs.jsonl", b"".join(msgspec.json.encode(one) + b"\n" for one in objects))
        lines = [
            record("gone", removed_at=NOON + 1),
            record("ended", ended_at=NOON + 1, seen_at=(NOON + 1) * 1000),
            record("resumed", ended_at=NOON - 9, seen_at=(NOON - 9) * 1000),
            record("runs", seen_at=(NOON + 1) * 1000),
            *(record(f"long ago {number}", removed_at=NOON - 9) for number in range(9)),
        ]
        writer.add("history/runs.jsonl", b"".join(lines))
    removed, ended = changes_during_backup(tmp_path / "b.tar.zst", about)
    assert removed == {"gone"}
    assert {uid: status and status.phase for uid, status in ended.items()} == {"ended": Phase.SUCCEEDED}
