"""Replay a log of gangs through the production planner: how long people would have waited under each policy.

python -m bench.scheduling.replay LOG.swf.gz --nodes 128 --plots docs/figures
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.svg import Axis, bars, lines
from bench.scheduling.replaying import DEFAULT, EASY, POLICIES, SHARE, Figures, Replay, figures
from bench.scheduling.swf import DAY_SECONDS, Changes, Job, read_log

YEAR_DAYS = 365.0
SHORT = {
    DEFAULT.name: "default",
    EASY.name: "EASY",
    "FIFO, whatever fits starts": "FIFO, no reservation",
    "strict FIFO": "strict FIFO",
    SHARE.name: "share first",
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    changes = Changes(
        days=options.days,
        stretch=options.stretch,
        compress=options.compress,
        withhold=options.withhold,
        shuffle_users=options.shuffle_users,
        seed=options.seed,
    )
    jobs = changes.of(read_log(options.log, options.nodes))
    chosen = [policy for policy in (*POLICIES, SHARE) if SHORT[policy.name] in options.policies]
    waits: dict[str, np.ndarray] = {}
    cpu_seconds = {}
    for policy in chosen:
        began = time.process_time()
        waits[policy.name] = Replay(jobs, options.nodes, policy).run().waits
        cpu_seconds[policy.name] = time.process_time() - began
    print(f"{len(jobs)} gangs, {len({job.user for job in jobs})} users, {options.nodes} nodes; {changes}")
    of_all = {name: figures(jobs, each, options.nodes) for name, each in waits.items()}
    _print("all", of_all, cpu_seconds)
    if jobs[-1].submitted > YEAR_DAYS * DAY_SECONDS:
        later = {name: figures(jobs, each, options.nodes, YEAR_DAYS * DAY_SECONDS) for name, each in waits.items()}
        _print("submitted after the first year", later, {})
    if options.plots:
        plot(options.plots, jobs, waits, of_all)
    if not {DEFAULT.name, EASY.name} <= waits.keys():
        return 0
    return print_limits(_limits(of_all[DEFAULT.name], of_all[EASY.name], len(jobs), cpu_seconds[DEFAULT.name]))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("log", type=Path, help="a log in the Standard Workload Format, .gz or not")
    parser.add_argument("--nodes", type=int, required=True, help="of the machine; every job has whole nodes")
    parser.add_argument("--policies", nargs="+", choices=sorted(SHORT.values()), help="left out: all but share first")
    parser.add_argument("--days", type=float, help="only jobs of the first days")
    parser.add_argument("--stretch", type=float, default=1.0, help="times the run times and limits")
    parser.add_argument("--compress", type=float, default=1.0, help="jobs come so much faster")
    parser.add_argument("--withhold", type=float, default=0.0, help="the part of the jobs that lose their limit")
    parser.add_argument("--shuffle-users", action="store_true", help="deal out users anew")
    parser.add_argument("--seed", type=int, default=1, help="of what is by lot")
    parser.add_argument("--plots", type=Path, help="a folder for plots, as SVG")
    options = parser.parse_args(arguments)
    options.policies = options.policies or [SHORT[policy.name] for policy in POLICIES]
    return options


def _print(title: str, found: dict[str, Figures], cpu_seconds: dict[str, float]) -> None:
    columns = (
        "policy",
        "mean wait, min",
        "p95, min",
        "slowdown",
        "large, min",
        "longest, h",
        "users",
        "spread",
        "CPU s",
    )
    rows = []
    for name, each in found.items():
        values = [getattr(each, field.name) for field in fields(Figures)]
        cpu = f"{cpu_seconds[name]:.0f}" if name in cpu_seconds else ""
        rows.append((SHORT[name], *(f"{value:,.0f}" for value in values[:-1]), f"{values[-1]:.1f}", cpu))
    print_table(f"{title} (minutes, but for the longest wait)", columns, rows)


def _limits(ours: Figures, easy: Figures, jobs: int, cpu_seconds: float) -> list[Limit]:
    return [
        Limit("mean wait, times EASY's", ours.mean_wait / easy.mean_wait, most=0.8),
        Limit("mean bounded slowdown, times EASY's", ours.slowdown / easy.slowdown, most=0.5),
        Limit("mean wait of large gangs, times EASY's", ours.large_wait / max(easy.large_wait, 1e-9), most=1.0),
        Limit("longest wait, times EASY's", ours.longest_hours / easy.longest_hours, most=1.1),
        Limit("CPU time of the default policy, per 54,044 gangs", cpu_seconds * 54_044 / jobs, most=180, unit=" s"),
    ]


def plot(folder: Path, jobs: Sequence[Job], waits: dict[str, np.ndarray], found: dict[str, Figures]) -> None:
    """Plot each figure by policy, the distribution of waits, and waits by size of gang."""
    folder.mkdir(parents=True, exist_ok=True)
    titles = {
        "mean_wait": ("Mean wait", "minutes"),
        "p95_wait": ("95th percentile of waiting", "minutes"),
        "slowdown": ("Mean bounded slowdown", "times"),
        "large_wait": ("Mean wait of gangs of half the machine and more", "minutes"),
        "longest_hours": ("Longest wait", "hours"),
        "user_slowdown": ("Mean slowdown of users", "times"),
    }
    for name, (title, unit) in titles.items():
        groups = {SHORT[policy]: {"": float(getattr(each, name))} for policy, each in found.items()}
        path = folder / f"replay-{name.replace('_', '-')}.svg"
        path.write_text(bars(title, Axis(f"{unit}, logarithmic", log=True), groups))
    part = np.linspace(0.0, 1.0, 101)
    shown = {
        SHORT[policy]: [(max(float(np.quantile(each, p)) / 60, 0.1), float(p)) for p in part]
        for policy, each in waits.items()
    }
    title = "Part of all gangs that waited no longer"
    (folder / "replay-waits.svg").write_text(lines(title, Axis("minutes", log=True), Axis("part"), shown))
    sizes = np.array([job.nodes for job in jobs])
    classes = [2**power for power in range(int(sizes.max()).bit_length())]
    by_size = {}
    for policy, each in waits.items():
        means = [(size, each[(sizes >= size) & (sizes < 2 * size)]) for size in classes]
        by_size[SHORT[policy]] = [(float(size), float(of.mean()) / 60) for size, of in means if of.size]
    title = "Mean wait by size"
    written = lines(title, Axis("nodes, up to twice as many", log=True), Axis("minutes", log=True), by_size)
    (folder / "replay-sizes.svg").write_text(written)


if __name__ == "__main__":
    raise SystemExit(main())
