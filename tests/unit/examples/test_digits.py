"""examples/digits: real processes on loopback, one of which is killed; and the arithmetic."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "digits" / "train.py"
STEPS = ["--steps", "60", "--checkpoint-every", "10", "--report-every", "10"]


@pytest.fixture(scope="module")
def train() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_train", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits_train"] = module
    spec.loader.exec_module(module)
    return module


class Gang:
    """The members of one attempt, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members: list[subprocess.Popen[str]] = []

    def start(self, attempt: int, *options: str, world_size: int = 2) -> list[subprocess.Popen[str]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        started = []
        for rank in range(world_size):
            environment = {
                **os.environ,
                "KAJI_RANK": str(rank),
                "KAJI_WORLD_SIZE": str(world_size),
                "KAJI_ATTEMPT": str(attempt),
                "KAJI_CHECKPOINT_DIR": str(self.folder),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            started.append(
                subprocess.Popen(
                    [sys.executable, str(SCRIPT), *STEPS, *options],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        self.members += started
        return started


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    made = Gang(tmp_path / "checkpoint")
    yield made
    for member in made.members:
        if member.poll() is None:
            member.kill()
        member.communicate()


def read_until(process: subprocess.Popen[str], start: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line
    raise AssertionError(f"no line that starts with {start!r}")


def test_a_gang_that_lost_a_member_ends_with_the_same_parameters(gang: Gang, tmp_path: Path) -> None:
    """One member is killed half-way. The other ends with an error, and the next attempt resumes. The parameters equal
    those of an undisturbed training."""
    first, second = gang.start(1, "--seconds-per-step", "0.05")
    read_until(first, "step 30/60")
    second.kill()
    _, errors = first.communicate(timeout=30)
    assert first.returncode == 1
    assert "lost rank 1" in errors

    first, second = gang.start(2)
    resumed, _ = first.communicate(timeout=60)
    second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert resumed.splitlines()[0] in [f"attempt 2, 2 members: from the checkpoint of step {n}" for n in (30, 40, 50)]
    assert "step 30/60" not in resumed

    undisturbed = Gang(tmp_path / "other")
    gang.members += undisturbed.start(1)
    straight, _ = undisturbed.members[0].communicate(timeout=60)
    assert straight.splitlines()[-1] == resumed.splitlines()[-1]
    with np.load(gang.folder / "digits.npz") as one, np.load(undisturbed.folder / "digits.npz") as other:
        assert np.array_equal(one["state"], other["state"])
    assert float(resumed.splitlines()[-1].split("accuracy ")[1].split()[0]) > 0.9


def test_sigterm_saves_a_checkpoint_and_exits_with_143(gang: Gang) -> None:
    """A member that is asked to stop saves its progress since the last checkpoint."""
    (only,) = gang.start(1, "--seconds-per-step", "0.02", "--checkpoint-every", "1000", world_size=1)
    read_until(only, "step 20/60")
    only.send_signal(signal.SIGTERM)
    said, _ = only.communicate(timeout=30)
    assert only.returncode == 143
    assert "checkpoint of step" in said
    assert (gang.folder / "digits.npz").exists()


def test_the_training_continues_with_another_number_of_members(gang: Gang) -> None:
    """Two members continue from the checkpoint of one."""
    gang.start(1, "--seconds-per-step", "0.02", "--checkpoint-every", "1000", world_size=1)
    read_until(gang.members[0], "step 10/")
    gang.members[0].send_signal(signal.SIGTERM)
    assert gang.members[0].wait(60) == 143
    first, second = gang.start(2)
    out, err = first.communicate(timeout=60)
    assert second.wait(60) == 0 and first.returncode == 0, err
    assert out.startswith("attempt 2, 2 members: from the checkpoint of step 1")
    assert "step 60/60 loss" in out


def test_a_missing_library_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    """If scikit-learn is missing, the script prints a message instead of a traceback."""
    (tmp_path / "sklearn.py").write_text("raise ImportError('No module named sklearn')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install scikit-learn" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_gradient_is_that_of_the_loss(train: ModuleType) -> None:
    """Central differences agree with the formula."""
    model = train.Model(hidden=5)
    random = np.random.default_rng(1)
    images, labels = random.random((6, train.PIXELS)), random.integers(0, train.CLASSES, 6)
    parameters = model.initial(3)
    _, gradient = model.gradient(parameters, images, labels)
    for index in random.choice(model.size, 40, replace=False):
        step = np.zeros(model.size)
        step[index] = 1e-6
        above, _ = model.gradient(parameters + step, images, labels)
        below, _ = model.gradient(parameters - step, images, labels)
        assert (above - below) / 2e-6 == pytest.approx(gradient[index], abs=1e-5)


def test_an_isolated_attempt_does_not_overwrite_a_later_checkpoint(train: ModuleType, tmp_path: Path) -> None:
    """Attempt 1 may still be alive somewhere when attempt 2 has saved."""
    state = np.arange(3.0)
    train.Checkpoints(tmp_path, "x", 2).save(state)
    with pytest.raises(SystemExit, match="attempt 2 has taken over"):
        train.Checkpoints(tmp_path, "x", 1).save(state + 1)
    assert np.array_equal(train.Checkpoints(tmp_path, "x", 3).load(), state)


def test_a_checkpoint_of_another_training_or_a_broken_one_is_refused(train: ModuleType, tmp_path: Path) -> None:
    """Otherwise a training would silently continue from wrong weights."""
    train.Checkpoints(tmp_path, "hidden 5", 1).save(np.zeros(2))
    with pytest.raises(SystemExit, match="another training"):
        train.Checkpoints(tmp_path, "hidden 6", 1).load()
    (tmp_path / "digits.npz").write_bytes(b"half")
    with pytest.raises(SystemExit, match="Remove it"):
        train.Checkpoints(tmp_path, "hidden 5", 1).load()
