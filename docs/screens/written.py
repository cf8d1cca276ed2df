"""A Web API over written objects: 7,500 nodes and 10,000 runs, or few with names that are long or in other scripts.

python -m docs.screens.written full FOLDER      prints its URL and names of runs; it ends with its standard input
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from bench.pages.streams import serve
from bench.parts.processes import say
from tests.harness.web_api import LeaderHere
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node, pod, run
from tests.unit.api.fake_programs import FakeLog

from kajitori.api.queue import state
from kajitori.core.formats.times import format_time
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.core.usage.records import AuditEntry, RunRecord, RunState, SegmentRecord
from kajitori.history.store import History

TEAMS = ("vision", "speech", "language", "proteins")
TYPES = ("h100", "h100", "a100", "h200")
REQUESTS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
TEMPLATE = template_text(
    {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": REQUESTS}}]}}
)
SIZES = (1, 1, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64, 128, 256)
HISTORY_RUNS = 3_000
HISTORY_DAYS = 30


@dataclass(frozen=True)
class Content:
    """Contents of a server: its size, and the texts that users chose."""

    nodes: int = 48
    runs: int = 60
    names: tuple[str, ...] = ("bert", "vit", "whisper", "llama", "ablation", "finetune", "eval", "pretrain")
    owners: tuple[str, ...] = ("ada", "grace", "alan", "katherine", "edsger", "barbara", "donald", "margaret")
    node: str = "gpu-{:05}"
    failure: str = "member 3: exit code 1"
    waiting: str = "needs {} nodes"
    log: tuple[str, ...] = tuple(f"step {step}: loss {9 / (step + 1):.3f}" for step in range(60))
    asked: str = field(default="ada")
    """The caller; here a user's name is also the token, which has no @."""


LONG = "wilhelmina-van-der-meer-oosterhuis@department-of-computational-linguistics.university.example"
CONTENTS = {
    "full": Content(nodes=7_500, runs=10_000),
    "long": Content(
        names=("pretrain-multilingual-mixture-of-experts-with-curricul", "ab"),
        owners=(LONG, "ada"),
        node="gpu-{:05}.rack-17.hall-3.datacentre-north.cluster.internal",
        failure="member 3: FileNotFoundError: /data/" + "imagenet-21k-winter-2021-release/" * 4 + "train.tar",
        log=(
            "x" * 400,
            "Traceback (most recent call last):",
            '  File "train.py", line 3, in <module>',
            "ValueError: " + "no " * 90,
        ),
        asked=LONG.replace("@", "."),
    ),
    "japanese": Content(
        owners=("山田太郎", "佐藤花子", "鈴木一郎"),
        failure="メンバー3: 終了コード1 (学習データが見つかりません)",
        log=tuple(f"ステップ {step}: 損失 {9 / (step + 1):.3f} 学習は順調に進んでいます" for step in range(60)),
    ),
    "arabic": Content(
        owners=("ليلى حسن", "דוד לוי", "أحمد"),
        failure="العضو 3: رمز الخروج 1 (لم يتم العثور على الملف data.tar)",
        log=tuple(f"الخطوة {step}: الخسارة {9 / (step + 1):.3f}" for step in range(60)),
    ),
}


def furnish(kubernetes: FakeKubernetes, content: Content, now: datetime) -> dict[str, str]:
    """Create nodes in racks of 16 and runs, the newest first. Return names of a run that runs, of one that waits, and
    of the newest four, all of the first team."""
    for number in range(1, content.nodes + 1):
        made = node(
            content.node.format(number),
            gpus=8,
            gpu_type=_type_of(number),
            cordoned=number % 97 == 0,
            ready=number % 331 != 0,
        )
        place = {
            "kajitori.dev/rack": f"rack-{(number - 1) // 16}",
            "topology.kubernetes.io/zone": f"zone-{(number - 1) // 2500}",
        }
        made["metadata"]["labels"] |= place
        kubernetes.put("nodes", made)
    lot, found = random.Random(22), dict[str, str]()
    free = {kind: _healthy(content, kind) for kind in TYPES}
    held, newest = 0, list[str]()
    for number in range(content.runs):
        created = now - timedelta(minutes=2 + number * 7)
        made = _run(content, number, created)
        meta, spec = made["metadata"], made["spec"]
        spec["replicas"] = lot.choice(SIZES) if content.nodes > 1000 else lot.choice(SIZES[:5])
        fits = held + spec["replicas"] < content.nodes * 0.85
        phase = "Queued" if number % 11 == 1 and number < 400 else "Running" if fits and number % 5 != 3 else "Ended"
        nodes = list(islice(free[spec["resources"]["gpuType"]], spec["replicas"])) if phase == "Running" else []
        if phase == "Queued":
            spec["replicas"] = lot.choice(SIZES[7:] if content.nodes > 1000 else (8, 12))
            made["status"] = _waiting(content, spec["replicas"], created)
        elif nodes:
            spec["replicas"] = len(nodes)
            made["status"] = _running(nodes, created + timedelta(minutes=1))
        else:
            made["status"] = _ended(content, lot, spec["replicas"], created, min(now, created + timedelta(hours=2)))
        stored = kubernetes.put("runs", made)
        for rank, name in enumerate(nodes):
            placed = pod(stored, rank=rank, node=name, gpus=8)
            placed["status"]["startTime"] = format_time(created + timedelta(seconds=30))
            kubernetes.put("pods", placed)
            if rank == 0:
                kubernetes.logs[meta["namespace"], placed["metadata"]["name"]] = FakeLog(*content.log)
        held += len(nodes)
        if meta["namespace"] == TEAMS[0]:
            newest.append(meta["name"])
            found.setdefault({"Queued": "waiting", "Running": "run"}.get(phase, "ended"), meta["name"])
    return found | dict(zip(("first", "second", "third", "fourth"), newest, strict=False))


def _type_of(number: int) -> str:
    return TYPES[number // 160 % len(TYPES)]


def _healthy(content: Content, gpu_type: str) -> Iterator[str]:
    numbers = range(1, content.nodes + 1)
    return (
        content.node.format(number)
        for number in numbers
        if _type_of(number) == gpu_type and number % 97 and number % 331
    )


def _run(content: Content, number: int, created: datetime) -> dict[str, Any]:
    name = f"{content.names[number % len(content.names)]}-{content.runs - number}"
    made = run(
        name,
        namespace=TEAMS[number % 4 if number > 3 else 0],
        owner=content.owners[number * 5 % 7 % len(content.owners)],
        command=["python", "train.py", "--lr", f"{(number % 9 + 1) / 10_000}"],
        resources={"cpu": 1, "memory": "1Gi", "gpu": 8, "gpuType": TYPES[number % len(TYPES)]},
        timeLimit=f"{24 + number % 48}h",
    )
    made["metadata"]["creationTimestamp"] = format_time(created)
    return made


def _waiting(content: Content, replicas: int, created: datetime) -> dict[str, Any]:
    status = {"phase": "Queued", "reason": "WaitingForGPU", "queuedAt": format_time(created)}
    return status | {"message": content.waiting.format(replicas), "members": {"total": replicas}}


def _running(nodes: list[str], started: datetime) -> dict[str, Any]:
    at = format_time(started)
    attempt = {"number": 1, "nodes": ",".join(nodes), "created": True, "startedAt": at, "template": TEMPLATE}
    members = {"total": len(nodes), "running": len(nodes)}
    return {"phase": "Running", "attempts": 1, "startedAt": at, "members": members, "attempt": attempt}


def _ended(content: Content, lot: random.Random, replicas: int, created: datetime, ended: datetime) -> dict[str, Any]:
    phase = lot.choice(("Succeeded", "Succeeded", "Succeeded", "Failed", "Stopped"))
    times = {"queuedAt": format_time(created), "startedAt": format_time(created), "finishedAt": format_time(ended)}
    failed = {"reason": "ProgramFailed", "message": content.failure, "exitCode": 1} if phase == "Failed" else {}
    return {"phase": phase, "attempts": 1, "members": {"total": replicas}, **times, **failed}


async def _remember(history: History, content: Content, now: datetime) -> None:
    """Write a month of ended runs with their usage, and of changes."""
    lot, states, entries = random.Random(5), list[RunState](), list[AuditEntry]()
    for number in range(HISTORY_RUNS):
        began = int(now.timestamp()) - (number + 1) * HISTORY_DAYS * 86_400 // HISTORY_RUNS
        ended = began + lot.randrange(600, 80_000)
        members = lot.choice(SIZES)
        phase = lot.choice(("Succeeded", "Succeeded", "Succeeded", "Failed", "Stopped"))
        team, name = TEAMS[number * 7 % 4], f"{content.names[number % len(content.names)]}-old-{HISTORY_RUNS - number}"
        owner = lot.choice(content.owners)
        record = RunRecord(
            uid=f"uid-{number}",
            namespace=team,
            name=name,
            owner=owner,
            type="batch",
            phase=phase,
            reason="ProgramFailed" if phase == "Failed" else "",
            created_at=began - 60,
            started_at=began,
            ended_at=ended,
            removed_at=ended + 600,
            members=members,
            gpus=8 * members,
            attempts=1,
            seen_at=ended * 1000,
            document=b'{"metadata": {"labels": {}}, "spec": {"image": "bert:3"}}',
        )
        used = SegmentRecord(
            id=began * 1000,
            attempt=1,
            members=members,
            since=began,
            until=ended,
            nodes=",".join(content.node.format(1 + (number * 31 + rank) % content.nodes) for rank in range(members)),
            gpu_type=TYPES[number % len(TYPES)],
            gpus=8,
            cpu_millis=32_000,
            memory_bytes=2**36,
            started=began + 30,
            ended=None,
            cause="",
            culprit="",
            saves_every=3600,
            counts=0,
        )
        states.append(RunState(run=record, segments=(used,), ledger=began * 1000, last=began * 1000))
        action, refused = lot.choice(("run run", "stop run", "delete run", "resume run")), number % 40 == 7
        entries.append(
            AuditEntry(
                key=str(number),
                at=began * 1000,
                actor=owner,
                source="10.0.0.1",
                action=action,
                namespace=team,
                object=f"run {name}",
                outcome="refused" if refused else "done",
                rule="maxGpus" if refused else "",
                message=content.failure if refused else "",
            )
        )
    await history.record(states)
    await history.note(entries)


async def main(kind: str, folder: str) -> None:
    """Serve until standard input ends."""
    state.ANSWER_SECONDS = 60.0  # no answer lacks a part on a busy machine
    content, now = CONTENTS[kind], datetime.now(UTC)
    history = History(f"sqlite://{folder}/history-{kind}.db")
    await _remember(history, content, now)
    async with fake_kubernetes() as kubernetes:
        say({"user": content.asked, **furnish(kubernetes, content, now)})
        await serve(kubernetes.url, leader=LeaderHere(), history=history)
    await history.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
