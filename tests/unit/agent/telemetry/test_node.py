"""Samples of a node, and of its GPUs whether or not a member holds them."""

from __future__ import annotations

import math

from tests.unit.agent.telemetry.test_samples import Clock, Gpus, Members

from kajitori.agent.telemetry.gpus.dcgm import devices_in
from kajitori.agent.telemetry.gpus.readings import CombinedGpus
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.node import NodeSamples, node_readings
from kajitori.agent.telemetry.samples import MemberSamples
from kajitori.core.telemetry.report import encode as encode_report
from kajitori.core.telemetry.report import floats_of, read_report


def test_a_minute_has_the_node_all_gpus_and_the_members_that_held_them() -> None:
    """Also without any member: idle GPUs are what people look for."""
    clock, busy = Clock(1_200_000.0), [0.0]
    source, gpus = Members(), Gpus(A=10.0, B=20.0)
    node = NodeSamples(lambda: {"cpu.used": busy[0], "memory.used": 5.0})
    samples = MemberSamples(source, gpus, clock, node=node)
    for _ in range(4):
        clock.now, busy[0] = clock.now + 15, busy[0] + 30
        samples.sample()
    member = LocalMember("team", "bert-1-0", "u1", lambda: (), gpus=("B",))
    source.found = [member]
    for _ in range(4):
        clock.now, busy[0] = clock.now + 15, busy[0] + 15
        gpus.used["B"] += 10
        samples.sample()
    first, second = read_report(encode_report(samples.report((20_000, 20_001, 20_002)))).node
    assert (first.minute, first.gpus, first.holders) == (20_000, 2, {})
    assert list(floats_of(first.values)) == [2.0, 5.0]
    assert floats_of(first.gpu_values)[0] == 10.0 and math.isnan(floats_of(first.gpu_values)[1])
    assert (second.minute, second.holders) == (20_001, {"u1": 0b10})
    assert list(floats_of(second.values)) == [1.0, 5.0]
    assert floats_of(second.gpu_values)[5] == 45.0


def test_the_machine_itself_is_read() -> None:
    found = node_readings()
    assert found["cpu.used"] > 0 and found["memory.used"] > 0


def test_a_gpu_that_two_sources_know_is_counted_once() -> None:
    """The exporter also lists slices, which are no GPUs of their own."""
    text = "\n".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{index}",UUID="GPU-{index}"{more}}} 5'
        for index in (1, 0)
        for more in ("", ',GPU_I_ID="3"')
    )
    assert devices_in(text) == [("GPU-0", "0"), ("GPU-1", "1")]
    assert CombinedGpus([Gpus(A=1.0, B=2.0), Gpus(B=3.0, C=4.0)]).devices() == (("A",), ("B",), ("C",))
