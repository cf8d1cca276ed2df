"""Make a synthetic log for `bench.scheduling.replay`, with permanent overload and bursts, which the real log lacks.

python -m bench.scheduling.made_up LOG.swf --days 30 --load 1.1
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.parts.options import option_parser
from bench.scheduling.swf import DAY_SECONDS, Job

LIMITS = (900, 1800, 3600, 7200, 14400, 21600, 43200, 64800, 86400, 172800)
USERS, TEAMS = 60, 15
LARGE = 0.08
"""Share of kinds of runs that take half of the machine or more."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__)
    parser.add_argument("log", type=Path, help="where to write it, in the Standard Workload Format")
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--days", type=int, default=30, help="in which jobs are submitted")
    parser.add_argument("--load", type=float, default=0.8, help="the work, beside what the machine can do in that time")
    parser.add_argument("--bursts", type=float, default=0.0, help="so many sessions have twenty times as many jobs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    jobs = made_up(options.nodes, options.days, options.load, bursts=options.bursts, seed=options.seed)
    options.log.write_text("".join(f"{_line(job)}\n" for job in jobs))
    print(f"{len(jobs)} gangs of {len({job.user for job in jobs})} users")
    return 0


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of run that a user repeats."""

    nodes: int
    seconds: float
    limit_seconds: int


def made_up(nodes: int, days: int, load: float, *, bursts: float = 0.0, seed: int = 1) -> list[Job]:
    """Return jobs of users who each run few kinds of jobs, in sessions, by day more than by night. A few users have
    most of the jobs. The jobs of a kind take half to twice its usual length, a tenth of them end at once, and their
    limits are far too long."""
    lot = random.Random(seed)
    people = [([_kind(lot, nodes, k) for k in range(lot.randint(1, 4))], lot.paretovariate(1.2)) for _ in range(USERS)]
    wanted, found = load * nodes * days * DAY_SECONDS, list[Job]()
    work = 0.0
    while work < wanted:
        for job in _session(lot, people, days, bursts):
            found.append(job)
            work += job.seconds * job.nodes
            if work >= wanted:
                break
    return sorted(found, key=lambda job: job.submitted)


def _kind(lot: random.Random, nodes: int, number: int) -> _Kind:
    size = min(nodes, 1 << int(lot.expovariate(0.45)))
    if lot.random() < LARGE:
        size = lot.choice((nodes // 2, nodes * 3 // 4, nodes))
    if lot.random() < 0.25:
        size = max(1, int(size * lot.uniform(0.6, 1)))
    seconds = min(math.exp(lot.gauss(math.log(1800), 1.7)), 1.5 * DAY_SECONDS)
    enough = [limit for limit in LIMITS if limit >= seconds * lot.choice((1.2, 2, 4))] or LIMITS[-1:]
    return _Kind(
        size, seconds, lot.choice(enough) + number
    )  # jobs of a user with the same limit count as the same kind


def _session(
    lot: random.Random, people: Sequence[tuple[Sequence[_Kind], float]], days: int, bursts: float
) -> Iterator[Job]:
    """Yield the jobs of one kind that one user submits."""
    day = lot.uniform(0, days)
    is_office = 9 <= day % 1 * 24 <= 18
    if lot.random() > (1.0 if is_office else 0.4) * (1.0 if int(day) % 7 < 5 else 0.5):
        return
    user = lot.choices(range(len(people)), [weight for _, weight in people])[0]
    kind = lot.choice(people[user][0])
    count, at = 1 + int(lot.expovariate(0.25)), day * DAY_SECONDS
    if lot.random() < bursts:
        count *= 20
    for _ in range(count):
        seconds = min(kind.limit_seconds, kind.seconds * math.exp(lot.gauss(0, 0.5)))
        if lot.random() < 0.1:
            seconds = lot.uniform(5, 120)
        yield Job(0, at, seconds, kind.nodes, kind.limit_seconds, str(user), str(user % TEAMS))
        at += lot.expovariate(1 / 60) if lot.random() < 0.6 else lot.expovariate(1 / 1800)


def _line(job: Job) -> str:
    """Return the 18 columns; -1 means unknown."""
    asked = f"{job.nodes} {job.limit_seconds} -1 1 {job.user} {job.team}"
    return f"{job.number + 1} {job.submitted:.1f} -1 {job.seconds:.1f} {job.nodes} -1 -1 {asked} -1 -1 -1 -1 -1"


if __name__ == "__main__":
    raise SystemExit(main())
