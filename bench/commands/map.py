"""Many short calls of a function: `f.map` beside joblib, Dask and Ray, with the same number of workers on this machine.

    python -m bench.commands.map [--workers 2] [--calls 1000] [--seconds 0.01]

The peers are measured if they are installed (`pip install 'dask[distributed]' joblib ray`). Each figure is the time
from nothing to the last result, with the start of the workers, and the time of the calls alone once the first result
has come. Kajitori's workers start as members of a run of a `kaji up`, which `kaji` finds as always.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.parts.options import option_parser


def task(seconds: float, number: int) -> int:
    """Wait, as a call does that uses another device than the processor."""
    time.sleep(seconds)
    return number


def by_kajitori(calls: int, seconds: float, workers: int) -> Iterator[Any]:
    import kajitori

    function: Any = kajitori.function(cpus=0.2, memory="128m")(partial_of(seconds))
    yield from function.map(range(calls), at_most=workers, ordered=False)


def partial_of(seconds: float) -> Callable[[int], int]:
    """Return the task as a function of its own, which is pickled by value."""

    def wait(number: int) -> int:
        import time

        time.sleep(seconds)
        return number

    return wait


def by_joblib(calls: int, seconds: float, workers: int) -> Iterator[Any]:
    from joblib import Parallel, delayed

    wait = delayed(partial(task, seconds))
    yield from Parallel(n_jobs=workers, return_as="generator")(wait(number) for number in range(calls))


def by_dask(calls: int, seconds: float, workers: int) -> Iterator[Any]:
    from distributed import Client, as_completed

    with Client(n_workers=workers, threads_per_worker=1, dashboard_address=None) as client:
        for future in as_completed(client.map(partial(task, seconds), range(calls), pure=False)):
            yield future.result()


def by_ray(calls: int, seconds: float, workers: int) -> Iterator[Any]:
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        remote = ray.remote(task)
        left = [remote.remote(seconds, number) for number in range(calls)]
        while left:
            done, left = ray.wait(left)
            yield from ray.get(done)
    finally:
        ray.shutdown()


PEERS: dict[str, Callable[[int, float, int], Iterator[Any]]] = {
    "kajitori": by_kajitori,
    "joblib": by_joblib,
    "dask": by_dask,
    "ray": by_ray,
}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.01)
    parser.add_argument("peers", nargs="*", default=list(PEERS))
    asked = parser.parse_args()
    ideal = asked.calls * asked.seconds / asked.workers
    print(f"{asked.calls} calls of {asked.seconds:g} s, {asked.workers} workers: {ideal:.1f} s at best")
    for name in asked.peers:
        began, first, count = time.monotonic(), 0.0, 0
        try:
            for _ in PEERS[name](asked.calls, asked.seconds, asked.workers):
                first, count = first or time.monotonic(), count + 1
        except ImportError as error:
            print(f"{name:>10}: not installed ({error})")
            continue
        ended, load = time.monotonic(), os.getloadavg()[0]
        assert count == asked.calls
        print(f"{name:>10}: {ended - began:6.1f} s in all, {ended - first:6.1f} s after the first (load {load:.0f})")


if __name__ == "__main__":
    main()
