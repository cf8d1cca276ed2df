"""The amounts that a Pod takes of its node: the most that its containers and init containers take at any time."""

from __future__ import annotations

import pytest

from kajitori.core.kubernetes.pod_amounts import Amounts, pod_amounts

SIDECAR, STEP = True, False


@pytest.mark.parametrize(
    ("init_containers", "cpu"),
    [
        ((), 5),
        ([({"cpu": 4}, STEP), ({"cpu": 4}, STEP)], 5),
        ([({"cpu": 9}, STEP)], 9),
        ([({"cpu": 1}, SIDECAR)], 6),
        ([({"cpu": 1}, SIDECAR), ({"cpu": 9}, STEP)], 10),
        ([({"cpu": 9}, STEP), ({"cpu": 1}, SIDECAR)], 9),
        ([({"cpu": 1}, SIDECAR), ({"cpu": 7}, STEP), ({"cpu": 2}, SIDECAR)], 8),
    ],
)
def test_a_step_of_the_start_counts_if_it_takes_more_than_the_program(
    init_containers: list[tuple[Amounts, bool]], cpu: int
) -> None:
    """It runs beside the sidecars that started before it."""
    assert pod_amounts([{"cpu": 2}, {"cpu": 3}], init_containers, {}, {}) == {"cpu": cpu}


def test_amounts_of_the_whole_pod_replace_those_of_its_containers() -> None:
    asked = [{"cpu": 2, "gpu": 1}]
    assert pod_amounts(asked, [({"cpu": 9}, STEP)], {"cpu": 4}, {"cpu": 1}) == {"cpu": 5, "gpu": 1}
    assert asked == [{"cpu": 2, "gpu": 1}]
