"""One member of a sweep: a line is fitted by gradient descent with a learning rate and a seed of the member's own.

Standard library only. Alone: KAJI_ARRAY_INDEX=7 python step.py
"""

from __future__ import annotations

import json
import os
import random
from itertools import product

RATES, SEEDS = (0.3, 0.1, 0.03, 0.01), (0, 1, 2)
GRID = list(product(RATES, SEEDS))


def fit(rate: float, seed: int, steps: int = 200) -> float:
    """Return the mean squared error after this many steps."""
    noise = random.Random(seed)
    points = [(x / 10, 3 * x / 10 - 1 + noise.gauss(0, 0.1)) for x in range(-10, 11)]
    slope = offset = 0.0
    for _ in range(steps):
        errors = [(slope * x + offset - y, x) for x, y in points]
        slope -= rate * 2 * sum(error * x for error, x in errors) / len(points)
        offset -= rate * 2 * sum(error for error, _ in errors) / len(points)
    return sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)


def main() -> None:
    rate, seed = GRID[int(os.environ.get("KAJI_ARRAY_INDEX", "0")) % len(GRID)]
    loss = fit(rate, seed)
    print(f"rate {rate}, seed {seed}: loss {loss:.4f}")
    if "KAJI_RESULT" in os.environ:
        with open(os.environ["KAJI_RESULT"], "w") as file:
            json.dump({"rate": rate, "seed": seed, "loss": round(loss, 6)}, file)


if __name__ == "__main__":
    main()
