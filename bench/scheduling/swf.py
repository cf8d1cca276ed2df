"""Logs in the Standard Workload Format: one line for each parallel job, with 18 columns; unknown values are -1."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, replace
from pathlib import Path

DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Job:
    """One job as a gang of whole nodes. Times in seconds; `submitted` counts from the first job of the log."""

    number: int
    submitted: float
    seconds: float
    nodes: int
    limit_seconds: float | None
    """The time limit that the user set, or None."""
    user: str
    team: str


def read_log(path: Path, nodes: int) -> list[Job]:
    """Return the jobs that ran and need at most this many nodes, in the order of their submission.

    Raises ValueError, which names the line, if the file has another format.
    """
    found = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith(";") or not line.strip():
                continue
            try:
                columns = [float(word) for word in line.split()]
                _, submitted, _, seconds, used, _, _, asked, limit, _, _, user, group = columns[:13]
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not in the Standard Workload Format: {error}") from error
            size = int(used if used > 0 else asked)
            if seconds < 0 or size <= 0:
                continue  # cancelled before it began
            limited = limit if limit > 0 else None
            found.append(Job(0, submitted, seconds, min(size, nodes), limited, f"{user:.0f}", f"{group:.0f}"))
    found.sort(key=lambda job: job.submitted)
    first = found[0].submitted if found else 0.0
    return [replace(job, number=number, submitted=job.submitted - first) for number, job in enumerate(found)]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to a log, to see which results hold on other logs."""

    days: float | None = None
    """Keep only jobs that were submitted in the first days, as many as this."""
    stretch: float = 1.0
    """Factor for run times and limits. With too much work for the machine it is permanently overloaded."""
    compress: float = 1.0
    """Factor by which jobs are submitted faster."""
    withhold: float = 0.0
    """Share of the jobs, chosen at random, that lose their limit."""
    shuffle_users: bool = False
    """Assign users at random, so that history says nothing."""
    seed: int = 1

    def of(self, log: list[Job]) -> list[Job]:
        """Return the log with these changes."""
        lot = random.Random(self.seed)
        jobs = [job for job in log if self.days is None or job.submitted < self.days * DAY_SECONDS]
        people = [(job.user, job.team) for job in jobs]
        if self.shuffle_users:
            lot.shuffle(people)
        changed = []
        for job, (user, team) in zip(jobs, people, strict=True):
            limit = job.limit_seconds * self.stretch if job.limit_seconds else None
            if self.withhold and lot.random() < self.withhold:
                limit = None
            submitted, seconds = job.submitted / self.compress, job.seconds * self.stretch
            changed.append(
                replace(job, submitted=submitted, seconds=seconds, limit_seconds=limit, user=user, team=team)
            )
        return [replace(job, number=number) for number, job in enumerate(changed)]
