"""The other examples: they run or name the missing library, and their Run files are valid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from kajitori.core.spec.reading.parsing import parse_spec

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("folder", sorted(p.parent.name for p in EXAMPLES.glob("*/run.yaml")))
def test_every_run_file_is_valid_and_names_an_existing_script(folder: str) -> None:
    """A user types `kaji run -f run.yaml` in the folder."""
    document = yaml.safe_load((EXAMPLES / folder / "run.yaml").read_text())
    assert (document["apiVersion"], document["kind"]) == ("kajitori.dev/v1alpha1", "Run")
    spec = parse_spec(document["spec"])
    scripts = [word for word in spec.command if word.endswith(".py")]
    assert scripts
    assert all((EXAMPLES / folder / script).is_file() for script in scripts)
    assert (EXAMPLES / folder / "README.md").is_file()


@pytest.mark.parametrize(
    ("script", "module", "command"),
    [
        ("torchrun/train.py", "torch", "pip install torch"),
        ("mpi4py/allreduce.py", "mpi4py", "pip install mpi4py"),
        ("optuna/study.py", "optuna", "pip install optuna"),
    ],
)
def test_a_missing_library_is_named(script: str, module: str, command: str, tmp_path: Path) -> None:
    """The message names the command that installs it; there is no traceback."""
    (tmp_path / f"{module}.py").write_text(f"raise ImportError('No module named {module}')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert command in done.stderr
    assert "Traceback" not in done.stderr


def test_the_service_answers_and_ends_at_sigterm() -> None:
    """It prints its rank, is healthy, and exits with 0."""
    environment = {**os.environ, "KAJI_RANK": "3", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(EXAMPLES / "service" / "app.py"), "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(maxsplit=1)[-1])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert json.load(answer)["rank"] == 3
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
                assert answer.read() == b"ok\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_a_member_of_the_sweep_writes_its_result(tmp_path: Path) -> None:
    """Each member takes the parameters of its index; without an index the script runs, too."""
    script = str(EXAMPLES / "sweep" / "step.py")
    environment = {**os.environ, "KAJI_ARRAY_INDEX": "5", "KAJI_RESULT": str(tmp_path / "result")}
    subprocess.run([sys.executable, script], env=environment, check=True, capture_output=True)
    result = json.loads((tmp_path / "result").read_text())
    assert (result["rate"], result["seed"]) == (0.1, 2)
    assert 0 < result["loss"] < 0.1
    done = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("rate 0.3, seed 0: loss")
