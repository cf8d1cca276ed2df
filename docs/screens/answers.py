"""Written answers for pictures: what takes weeks to record, and traffic, which no simulated node has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

TYPE_SECONDS = {"h100": 612_345_600, "a100": 287_654_400}
TEAM_SECONDS = {"vision": 401_234_400, "speech": 255_600_000, "default": 168_480_000, "protein-folding": 74_685_600}
INTERNET, CLUSTER, STORAGE = "internet", "cluster", "storage"
TALKERS = {
    "llama": ("default", "admin", 9_000_000, 1_200_000),
    "tokenizer": ("default", "admin", 2_400_000, 48_000_000),
    "bert-large": ("vision", "ada", 350_000, 5_200_000),
    "whisper": ("speech", "grace", 12_000, 640_000),
    "vit": ("vision", "alan", 0, 41_000),
}
"""Team, person, and bytes per second to and from the internet, by the name of the run."""
TALKED_SECONDS = 5_400
FORECAST_DAYS = 60
NODE_MINUTES, NODE_IDLE_MINUTES = 60, 14


def written_answers(now: datetime) -> Mapping[str, object]:
    """Return the written answers, by the pattern of the address that they belong to."""
    return {
        "**/v1/board/usage": month(now),
        "**/v1/traffic?*": traffic(now),
        "**/v1/traffic/history?*": past_traffic(now),
        "**/v1/networks/forecast": forecast(now),
        "**/v1/nodes/*/metrics?*": node_metrics(now),
    }


def node_metrics(now: datetime) -> dict[str, object]:
    """Return an hour of a node: idle first, then a run on its GPUs, one of which does less from some time on."""
    until = now.replace(second=0, microsecond=0)
    at = [until - timedelta(minutes=minute) for minute in range(NODE_MINUTES, 0, -1)]
    step = [0 if minute < NODE_IDLE_MINUTES else 1 for minute in range(NODE_MINUTES)]
    wave = [minute * 7 % 5 for minute in range(NODE_MINUTES)]

    def of_gpu(gpu: int, name: str, unit: str, idle: float, busy: float, noise: float) -> dict[str, object]:
        slow = [0.6 if gpu == 3 and minute > 40 and name == "gpu.used" else 1.0 for minute in range(NODE_MINUTES)]
        values = [
            slow[i] * (busy + noise * (wave[i - gpu] - gpu / 2)) if step[i] else idle + noise / 9 * wave[i]
            for i in range(NODE_MINUTES)
        ]
        return {"name": name, "unit": unit, "kind": "gauge", "description": "", "gpu": gpu, "values": values}

    def of_node(name: str, unit: str, idle: float, busy: float) -> dict[str, object]:
        values = [busy + busy / 40 * wave[i] if step[i] else idle + idle / 9 * wave[i] for i in range(NODE_MINUTES)]
        return {"name": name, "unit": unit, "kind": "gauge", "description": "", "values": values}

    quantities = (
        ("gpu.used", "%", 0.0, 93.0, 1.0),
        ("gpu.memory.used", "bytes", 6e8, 7.1e10, 1e8),
        ("gpu.memory.total", "bytes", 80 * 2.0**30, 80 * 2.0**30, 0.0),
        ("gpu.temperature", "°C", 31.0, 64.0, 1.0),
        ("gpu.power", "W", 72.0, 610.0, 6.0),
    )
    held = {"since": at[NODE_IDLE_MINUTES].isoformat(), "until": until.isoformat(), "gpus": list(range(8))}
    return {
        "node": "h100-01",
        "since": at[0].isoformat(),
        "until": until.isoformat(),
        "intervalSeconds": 60,
        "gpus": 8,
        "at": [time.isoformat() for time in at],
        "lastAt": "",
        "series": [
            of_node("cpu.used", "cores", 0.8, 21.0),
            of_node("memory.used", "bytes", 9e9, 1.8e11),
            *(of_gpu(gpu, *quantity) for quantity in quantities for gpu in range(8)),
        ],
        "holders": [held | {"namespace": "default", "run": "bert-large"}],
    }


def month(until: datetime) -> dict[str, object]:
    """Return the GPU-hours of a month."""
    return {
        "since": (until - timedelta(days=30)).isoformat(),
        "until": until.isoformat(),
        "gpuSeconds": sum(TYPE_SECONDS.values()),
        "types": [{"name": name, "gpuSeconds": seconds} for name, seconds in TYPE_SECONDS.items()],
        "teams": [{"name": name, "gpuSeconds": seconds} for name, seconds in TEAM_SECONDS.items()],
        "teamCount": len(TEAM_SECONDS),
    }


def traffic(now: datetime) -> dict[str, object]:
    """Return the runs that talk to the internet."""

    def count(per_second: int) -> dict[str, int]:
        sent = per_second * TALKED_SECONDS
        return {"bytes": sent, "packets": sent // 1400, "bytesPerSecond": per_second}

    def row(name: str, team: str, user: str, sent: int, received: int) -> dict[str, object]:
        speeds = {INTERNET: (sent, received), CLUSTER: (9 * sent + 800_000, 9 * sent + 700_000)}
        classes = [{"name": of, "sent": count(out), "received": count(back)} for of, (out, back) in speeds.items()]
        return {"name": name, "namespace": team, "runId": f"{name}-1", "user": user, "classes": classes}

    return {
        "items": [row(name, *talker) for name, talker in TALKERS.items()],
        "total": len(TALKERS),
        "orderClass": INTERNET,
        "rateSeconds": 60,
        "nodes": {"counted": 49, "silent": "", "silentCount": 0, "uncountedPods": 0},
        "at": now.isoformat(),
        "kept": True,
    }


def past_traffic(now: datetime) -> dict[str, object]:
    """Return the traffic of a week by team, with quiet nights."""
    hours = 7 * 24
    start = (now - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)

    def classes(scale: int) -> list[dict[str, object]]:
        shares = {INTERNET: (2, 9), CLUSTER: (60, 60), STORAGE: (14, 90)}
        return [{"name": of, "sent": out * scale, "received": back * scale} for of, (out, back) in shares.items()]

    def point(hour: int) -> dict[str, object]:
        at = start + timedelta(hours=hour)
        is_day = 7 <= at.hour < 20
        return {"at": at.isoformat(), "classes": classes(10**9 * (9 + hour % 5 if is_day else 3 + hour % 3))}

    return {
        "by": "namespace",
        "name": "",
        "since": start.isoformat(),
        "until": now.isoformat(),
        "intervalSeconds": 3600,
        "orderClass": INTERNET,
        "items": [{"name": team, "classes": classes(seconds * 3_000)} for team, seconds in TEAM_SECONDS.items()],
        "total": len(TEAM_SECONDS),
        "points": [point(hour) for hour in range(hours)],
    }


def forecast(now: datetime) -> dict[str, object]:
    """Return a pool that runs out within months, and one that lasts."""

    def day(ahead: float) -> str:
        return (now + timedelta(days=ahead)).replace(hour=0, minute=0, second=0, microsecond=0).isoformat()

    used = [3_400 + 105 * index + (index * 7919) % 340 for index in range(FORECAST_DAYS)]
    prefixes = [131 + index // 2 + index * 5 % 3 for index in range(FORECAST_DAYS)]

    def pool(history: list[int], **others: object) -> dict[str, object]:
        days = [{"at": day(index + 1 - FORECAST_DAYS), "used": used} for index, used in enumerate(history)]
        return {"used": history[-1], "daysKnown": FORECAST_DAYS, "state": "runs out", "history": days, **others}

    own = {"kind": "own ranges", "cidr": "", "cluster": "", "unit": "addresses", "capacity": 12_397}
    paris = {"kind": "nodes", "cidr": "10.16.0.0/20", "cluster": "paris", "unit": "addresses", "capacity": 4_096}
    return {
        "items": [
            pool(used, **own, perDay=105.0, at=day(24), earliest=day(23), latest=day(26)),
            pool(prefixes, **paris, perDay=0.5) | {"state": "far"},
        ]
    }
