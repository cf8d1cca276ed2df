"""The example of a node test: the faults that it finds, and the steps that it reports as skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[3] / "examples" / "preflight" / "check.py"
LISTED = "0, NVIDIA H100 80GB HBM3, 81559, 0\\n1, NVIDIA H100 80GB HBM3, 81559, {errors}\\n"


def check(
    folder: Path, *step: str, nvidia_smi: str = "", torch: str = "raise ImportError", **settings: str
) -> tuple[int, list[str]]:
    """Return exit code and lines of the node test with this nvidia-smi (a shell script) and this PyTorch: of all steps,
    or of one step in a process of its own."""
    (folder / "torch.py").write_text(torch)
    if nvidia_smi:
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        (folder / "nvidia-smi").chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": str(folder), "PREFLIGHT_DISK": str(folder)}
    environment |= {"PREFLIGHT_DISK_MIB": "1", "PREFLIGHT_DISK_MIB_S": "0", "PREFLIGHT_DISK_FREE_GIB": "0"}
    environment |= {f"PREFLIGHT_{name}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, str(CHECK), *step], env=environment, capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.skipif(Path("/usr/bin/nvidia-smi").exists(), reason="this machine has GPUs")
def test_a_node_without_gpus_passes_and_says_what_was_skipped(tmp_path: Path) -> None:
    code, lines = check(tmp_path)
    assert code == 0
    assert [line.split(":")[0] for line in lines] == [
        "skipped GPUs",
        "skipped compute",
        "skipped links",
        "skipped processes",
        "ok      disk",
    ]
    assert "PyTorch is not in this image" in lines[1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("preflight-")] == [], "nothing is left"


@pytest.mark.parametrize(
    ("step", "nvidia_smi", "settings", "said"),
    [
        ("GPUs", f"printf '{LISTED.format(errors=0)}'", {"GPUS": "8"}, "2 of 8 GPUs are there"),
        ("GPUs", f"printf '{LISTED.format(errors=3)}'", {}, "GPU 1 (NVIDIA H100 80GB HBM3) had 3 memory errors"),
        (
            "GPUs",
            f"printf '{LISTED.format(errors='[N/A]')}'",
            {"GPU_MEMORY_GIB": "100"},
            "has 80 GiB of memory, not 100",
        ),
        (
            "GPUs",
            "echo 'Unable to determine the device handle for GPU1'; exit 15",
            {},
            "nvidia-smi ended with 15: Unable to",
        ),
        ("disk", "exit 1", {"DISK_FREE_GIB": "1e9"}, "GiB are free in"),
    ],
    ids=["one fell off the bus", "its memory", "the wrong kind", "the driver", "the disk is full"],
)
def test_faults_of_gpus_are_reported(
    tmp_path: Path, step: str, nvidia_smi: str, settings: dict[str, str], said: str
) -> None:
    code, lines = check(tmp_path, step, nvidia_smi=nvidia_smi, **settings)
    assert code == 1
    assert said in lines[-1]


def test_healthy_gpus_are_listed(tmp_path: Path) -> None:
    code, lines = check(tmp_path, "GPUs", nvidia_smi=f"printf '{LISTED.format(errors=0)}'", GPUS="2")
    assert (code, lines) == (0, ["NVIDIA H100 80GB HBM3 80 GiB, NVIDIA H100 80GB HBM3 80 GiB"])


def test_a_step_that_kills_its_process_has_failed(tmp_path: Path) -> None:
    """A crashing driver does that. The last line names the fault, because operators see that line on the node."""
    code, lines = check(tmp_path, torch="import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert code == 1
    assert lines[-1].startswith("FAILED processes: ended by signal 11")


def test_a_setting_that_is_no_number_is_named(tmp_path: Path) -> None:
    code, lines = check(tmp_path, DISK_FREE_GIB="much")
    assert code == 1
    assert lines[-1] == "FAILED disk: PREFLIGHT_DISK_FREE_GIB is 'much', which is no number"
