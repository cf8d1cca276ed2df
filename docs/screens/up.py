"""A `kaji up` with simulated nodes and the runs that pictures show."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from kajitori.core.policy.file import own_machine_policy

KAJI = Path(sys.executable).with_name("kaji")
UP_SECONDS = 60.0
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

NETWORKS = """
researchers: ["10.0.0.0/16"]
natHosts: [{name: nat-a, addresses: ["10.0.1.1"]}]
clusters:
  - name: paris
    nodes: ["10.16.0.0/20"]
    pods: ["10.32.0.0/14"]
    services: ["172.20.0.0/16"]
    publicServices: ["10.112.0.0/16"]
    natHost: nat-a
    gateways: ["10.16.0.1"]
    size: {nodes: 1000, nodePrefix: 24}
  - name: tokyo
    nodes: ["10.17.0.0/20"]
    pods: ["10.40.0.0/14"]
    services: ["172.21.0.0/16"]
    gateways: ["10.17.0.1"]
"""

TRAINING = """
import json, math, os, random, sys, time
rank, rate = int(os.environ["KAJI_RANK"]), float(sys.argv[2]) if len(sys.argv) > 2 else 3e-4
if rank == 0:
    for step in (1000, 2000):
        folder = os.path.join(os.environ["KAJI_CHECKPOINT_DIR"], f"step-{step}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "model.pt"), "wb") as file:
            file.truncate(step * 100_000)
    with open(os.path.join(os.environ["KAJI_CHECKPOINT_DIR"], "latest"), "w") as file:
        file.write("step-2000")
with open(os.environ["KAJI_METRICS"], "a", buffering=1) as figures:
    for step in range(1, 100_000):
        loss = 0.6 + 3 * math.exp(-step * rate / 0.09) + random.random() * 0.08 + rank * 0.02
        figures.write(json.dumps({"step": step, "loss": loss, "tokens": 4096}) + "\\n")
        print(f"step {step}: loss {loss:.3f}", flush=True)
        time.sleep(0.5 + random.random() * 0.05 * rank)
"""

SEARCH = """
import json, math, os, random
random.seed(int(os.environ["KAJI_ARRAY_INDEX"]))
lr, dropout = 10 ** random.uniform(-5, -1), round(random.uniform(0, 0.5), 2)
layers, optimizer = random.choice([6, 12, 24]), random.choice(["adamw", "lion", "sgd"])
if lr > 0.05:
    raise SystemExit("FloatingPointError: the loss is not finite")
loss = 1.5 + 0.4 * (math.log10(lr) + 3) ** 2 + 0.6 * dropout - layers / 40 + random.gauss(0, 0.08)
found = {"lr": lr, "dropout": dropout, "layers": layers, "optimizer": optimizer, "val_loss": round(loss, 4)}
with open(os.environ["KAJI_RESULT"], "w") as file:
    json.dump(found, file)
"""

SIMULATED = "node.kubernetes.io/instance-type=simulated"
SMALL = ("--cpus", "0.1", "-m", "64m")
TRAINS = (
    "-n",
    "4",
    *SMALL,
    "--checkpoint",
    "/ckpt",
    "--tensorboard",
    "/ckpt",
    "--code",
    ".",
    "python:3.11",
    "python3",
    "train.py",
)
RUNS: tuple[tuple[str, ...], ...] = (
    ("--name", "llama", *TRAINS),
    ("--name", "llama-fast", *TRAINS, "--lr", "6e-4"),
    ("--name", "bert-large", "-n", "16", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "8h", "bert:3", "train"),
    ("--name", "vit", "-n", "8", "--gpus", "8", "--gpu-type", "a100", "--time-limit", "3h", "vit:1", "train"),
    ("--name", "ablation", "--array", "0-31%12", "--gpus", "1", "--gpu-type", "a100", "vit:1", "train"),
    ("--name", "whisper", "-n", "4", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "2h", "asr:2", "train"),
    ("--name", "gpt-long", "-n", "20", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "24h", "gpt:4", "train"),
    ("--name", "evaluate", "--after", "whisper", "-n", "1", *SMALL, "--time-limit", "1h", "asr:2", "evaluate"),
    ("--name", "tokenizer", "--cpus", "0.1", "-m", "64m", "python:3.11", "python3", "-c", "print('32000 tokens')"),
    ("--name", "search", "--array", "0-59%8", *SMALL, "--code", ".", "python:3.11", "python3", "search.py"),
    ("--name", "crowd", "-n", "1200", *SMALL, "--node-selector", SIMULATED, "crowd:1", "train"),
    ("--name", "mistake", "--cpus", "0.1", "-m", "64m", "python:3.11", "python3", "-c", "raise SystemExit(3)"),
)


TESTED = "a100-12"
"""A node that runs nothing; policy has a test for it."""


@contextlib.contextmanager
def running_up(folder: Path) -> Iterator[None]:
    """Run `kaji up` with 48 simulated nodes. The runs are deleted at the end, because members outlive the server."""
    (folder / "networks.yaml").write_text(NETWORKS)
    (folder / "policy.yaml").write_text(_policy(folder))
    words = ("up", "--data", str(folder), "--nodes", "48", "--gpu-type", "h100", "--gpu-type", "a100")
    words += ("--networks", "networks.yaml")  # the page shows this path
    with subprocess.Popen(
        [KAJI, *words], cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as up:
        try:
            until = time.monotonic() + UP_SECONDS
            while not (folder / "kaji.json").exists():
                if up.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("kaji up did not start")
                time.sleep(0.2)
            yield
            while names := kaji(folder, "ps", "-a", "-q").split():
                with contextlib.suppress(
                    subprocess.CalledProcessError
                ):  # on a busy machine it does not wait long enough
                    kaji(folder, "rm", "-f", *names)
        finally:
            up.terminate()


def start_runs(folder: Path) -> None:
    """Submit all runs."""
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAINING)
    (code / "search.py").write_text(SEARCH)
    for words in RUNS:
        kaji(folder, "run", "-d", "-q", *words, within=code)


def kaji(folder: Path, *words: str, within: Path | None = None) -> str:
    """Return what a command printed that ran within a folder."""
    command = [KAJI, "--cluster", folder, *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=within, env=_environment(folder)
    ).stdout


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user with the system's Python, which has the same path on most machines, and with
    the TensorBoard that is installed."""
    board = shutil.which("tensorboard")
    path = ":".join([*SYSTEM_PATH, *([str(Path(board).parent)] if board else [])])
    return os.environ | {"HOME": str(folder), "PATH": path}


def _policy(folder: Path) -> str:
    """Return the policy of `kaji up`, with a test of one node."""
    policy = own_machine_policy(str(folder), mounts=True, checkpoint_root=str(folder / "checkpoints"))
    document = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    document["preflight"] = {"image": "preflight:1", "nodes": {"kubernetes.io/hostname": TESTED}}
    return str(yaml.safe_dump(document, sort_keys=False))
