"""InfiniBand and RoCE ports of a node, as the kernel shows them in sysfs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kajitori.agent.telemetry import ports
from kajitori.agent.telemetry.ports import EVERY_SECONDS, Ports

CONNECTX7 = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "counters/symbol_error": "3",
    "counters/link_error_recovery": "1",
    "counters/link_downed": "2",
    "counters/port_rcv_errors": "4",
    "counters/local_link_integrity_errors": "0",
    "counters/port_rcv_data": "884739201",
    "hw_counters/rx_icrc_encapsulated": "5",
    "hw_counters/out_of_sequence": "71",
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late."""
    monkeypatch.setattr(ports, "PATIENCE_SECONDS", 60.0)


def port(folder: Path, device: str, **changed: str) -> None:
    for name, text in (CONNECTX7 | changed).items():
        file = folder / device / "ports/1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def test_the_slowest_active_port_and_the_errors_of_all_count(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    port(tmp_path, "mlx5_1", rate="200 Gb/sec (4X HDR)")
    port(tmp_path, "mlx5_2", state="1: DOWN", rate="10 Gb/sec (4X SDR)")
    (tmp_path / "mlx5_3").mkdir()
    expected = {"link.rate": 200.0, "link.ports": 2.0, "link.errors": 39.0, "link.downed": 6.0}
    assert Ports(tmp_path).read(0.0) == expected


def test_they_are_read_once_a_minute(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    found = Ports(tmp_path)
    before = found.read(0.0)
    port(tmp_path, "mlx5_0", rate="100 Gb/sec (2X HDR)")
    assert found.read(EVERY_SECONDS - 1) == before
    assert found.read(EVERY_SECONDS)["link.rate"] == 100.0


def test_a_node_without_such_ports_has_no_figures(tmp_path: Path) -> None:
    assert Ports(tmp_path / "none").read(0.0) == {}
    port(tmp_path, "mlx5_0", state="1: DOWN")
    assert Ports(tmp_path).read(0.0) == {}


def test_a_card_that_hangs_keeps_no_sample_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers = [], threading.Event()

    def hang(_: Path) -> dict[str, float]:
        asked.append(1)
        answers.wait()
        return {"link.rate": 400.0}

    monkeypatch.setattr(ports, "_readings_of", hang)
    monkeypatch.setattr(ports, "PATIENCE_SECONDS", 0.0)
    found = Ports(tmp_path)
    assert [found.read(EVERY_SECONDS * number) for number in range(3)] == [{}, {}, {}]
    answers.set()
    assert len(asked) <= 1, "one reader waits for the card, and no more"
