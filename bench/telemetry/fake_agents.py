"""Many agents in one process, for `bench.telemetry.agents`: they report and answer questions as `kaji agent` does.

The process prints a JSON document for each line that it reads: what happened since the line before. It ends with stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.parts.processes import say
from kajitori.agent.telemetry.reporting import MAX_DELAY_SECONDS, MIN_DELAY_SECONDS
from kajitori.core.telemetry.quantities import GPU, GPU_NAMES, MEMBER, MEMBER_NAMES
from kajitori.core.telemetry.report import (
    MEDIA_TYPE,
    Answer,
    MemberMinute,
    Report,
    Series,
    decode_questions,
    encode,
    hold_seconds,
)

GPUS = 8
COMING_SECONDS = 30.0
"""Time over which the agents connect, as after an upgrade of the servers."""


class Agent(msgspec.Struct, frozen=True, array_like=True):
    """The node of one agent, and the member that it reports."""

    number: int
    node: str
    namespace: str
    pod: str
    uid: str


class Told(msgspec.Struct, array_like=True):
    """Work of the agents of one process since the last question about it."""

    reports: int = 0
    failures: int = 0
    lags: tuple[float, float] = (0.0, 0.0)
    """99th percentile and maximum of the event loop's lag, in seconds."""
    answers: list[tuple[str, float, float]] = []
    """For each question: UID of the member, time at which it came, and time at which the answer was accepted."""


def token_of(node_name: str) -> str:
    return f"pod.kajitori-agent.kajitori.{node_name}.agent-{node_name}.u-{node_name}"


class LoopLag:
    """Measures how late an event loop calls a timer of 10 ms."""

    PERIOD_SECONDS = 0.01

    def __init__(self) -> None:
        self._late: list[float] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(self.PERIOD_SECONDS)
            self._late.append(time.monotonic() - began - self.PERIOD_SECONDS)

    def take(self) -> tuple[float, float]:
        """Return the 99th percentile and the maximum since the last call."""
        late, self._late = sorted(self._late), []
        return (late[int(0.99 * (len(late) - 1))], late[-1]) if late else (0.0, 0.0)


class Agents:
    """Agents of one process, each with one connection."""

    def __init__(self, url: str, total: int) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)
        self._total = total
        self.told = Told()

    async def run(self, agent: Agent) -> None:
        """Run one agent until cancelled."""
        number = agent.number
        offset = MIN_DELAY_SECONDS + (MAX_DELAY_SECONDS - MIN_DELAY_SECONDS) * random.random()
        reported = int((time.time() - offset) // 60) - 1
        await asyncio.sleep(number / self._total * COMING_SECONDS)
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
                # Agents have addresses of their own, since a server limits connections by address.
                local = (f"127.{1 + number // 60_000}.{number // 250 % 240}.{1 + number % 250}", 0)
                reader, writer = await asyncio.open_connection(self._host, self._port, local_addr=local)
                try:
                    while True:
                        reported = await self._turn(reader, writer, agent, offset, reported)
                finally:
                    writer.close()
            self.told.failures += 1
            await asyncio.sleep(random.random() * 2)

    async def _turn(self, reader: Any, writer: Any, agent: Agent, offset: float, reported: int) -> int:
        path = "telemetry"
        minute = int((time.time() - offset) // 60) - 1
        if minute > reported:
            body = encode(Report(minutes=(made_minute(agent, minute - 1), made_minute(agent, minute))))
            status, _ = await _ask(reader, writer, agent.node, "POST", path, body)
            if status != 204:
                raise ValueError(status)
            self.told.reports += 1
        hold = hold_seconds((minute + 2) * 60 + offset - time.time())
        status, content = await _ask(reader, writer, agent.node, "GET", f"{path}/questions?hold={hold}")
        if status != 200:
            raise ValueError(status)
        for question in decode_questions(content):
            came = time.time()
            answer = encode(Answer((hour_of(question.uids[0]),)))
            await _ask(reader, writer, agent.node, "POST", f"{path}/answers/{question.id}", answer)
            self.told.answers.append((question.uids[0], came, time.time()))
        return minute


async def _ask(
    reader: Any, writer: Any, node_name: str, method: str, path: str, body: bytes = b""
) -> tuple[int, bytes]:
    head = f"{method} /v1/nodes/{node_name}/{path} HTTP/1.1\r\nHost: kaji\r\n"
    head += f"Authorization: Bearer {token_of(node_name)}\r\n"
    head += f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    sizes = [line for line in lines if line.lower().startswith("content-length:")]
    size = int(sizes[0].split(":")[1]) if sizes else 0
    return int(lines[0].split()[1]), await reader.readexactly(size)


def made_minute(agent: Agent, minute: int) -> MemberMinute:
    values = array("f", [random.random() * 100 for _ in MEMBER]).tobytes()
    gpus = array("f", [random.random() * 100 for _ in range(GPUS * len(GPU))]).tobytes()
    devices = tuple(f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in range(GPUS))
    training = {"step": float(minute), "loss": random.random(), "step.rate": 1.0, "tokens.rate": 4096.0}
    return MemberMinute(agent.namespace, agent.pod, agent.uid, minute, values, devices, gpus, training)


def hour_of(uid: str) -> Series:
    rows = 240
    times = array("d", [time.time() - 15.0 * number for number in range(rows, 0, -1)]).tobytes()
    values = array("f", [1.0] * (rows * len(MEMBER_NAMES))).tobytes()
    gpu_values = array("f", [1.0] * (rows * len(GPU_NAMES) * GPUS)).tobytes()
    return Series(uid, times, values, tuple(f"GPU-{number}" for number in range(GPUS)), gpu_values)


async def be(url: str, agents: Sequence[Agent], total: int) -> None:
    """Run these agents until stdin is closed, and print what they did after each line."""
    found, lag = Agents(url, total), LoopLag()
    tasks = [asyncio.create_task(lag.run()), *(asyncio.create_task(found.run(agent)) for agent in agents)]
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        told, found.told = found.told, Told()
        told.lags = lag.take()
        say(msgspec.to_builtins(told))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("file", type=Path, help="all agents, in JSON")
    parser.add_argument("part", type=int)
    parser.add_argument("parts", type=int)
    options = parser.parse_args()
    agents = msgspec.json.decode(options.file.read_bytes(), type=list[Agent])
    uvloop.run(be(options.url, agents[options.part :: options.parts], len(agents)))


if __name__ == "__main__":
    main()
