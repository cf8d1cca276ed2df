"""Real PyTorch under torchrun: members find each other, and continue from their checkpoint after one was killed.

Needs PyTorch (the CPU build is enough), which Kajitori does not install: in the Python that runs the tests, or in the
one that KAJITORI_TORCH_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, this_machine
from tests.helpers.folders import texts_below
from tests.helpers.members import kill_member

from kajitori.core.spec.reasons import Phase

PYTHON = os.environ.get("KAJITORI_TORCH_PYTHON", sys.executable)
EXAMPLE = Path(__file__).parents[3] / "examples" / "torchrun" / "train.py"
PATIENCE_SECONDS = 180.0

pytestmark = pytest.mark.skipif(
    subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0,
    reason=f"{PYTHON} has no PyTorch: set KAJITORI_TORCH_PYTHON to the path of a Python that has it",
)


@pytest.mark.parametrize("backend", ["static", "c10d"])
async def test_a_training_continues_from_its_checkpoint(cluster: Cluster, backend: str) -> None:
    """With either rendezvous, `torchrun train.py` is enough as a command."""
    checkpoint = cluster.folder / "ckpt" / cluster.namespace / "ddp" / "model.pt"
    rendezvous = {} if backend == "static" else {"PET_RDZV_BACKEND": backend}
    async with this_machine(cluster) as selector:
        cluster.start_controller()
        await cluster.submit(
            "ddp",
            replicas=2,
            launcher="torchrun",
            restarts=1,
            command=[PYTHON, "-m", "torch.distributed.run", str(EXAMPLE), "--steps", "60", "--seconds-per-step", "0.1"],
            env=rendezvous | {"OMP_NUM_THREADS": "1", "WHOSE": cluster.namespace},
            nodeSelector=selector,
            resources={"cpu": 1, "memory": "2Gi"},
            checkpoint={"path": str(checkpoint.parent)},
        )
        await cluster.until(checkpoint.exists, "a checkpoint", seconds=PATIENCE_SECONDS)
        assert kill_member("WHOSE", cluster.namespace, 1)
        status = await cluster.reaches("ddp", Phase.SUCCEEDED, attempt=2, seconds=PATIENCE_SECONDS)
        assert (status.restarts, status.exit_code) == (1, 0)
        logs = "".join(texts_below(cluster.folder / "kubelet", "*.log").values())
        assert "2 members on cpu, from step 20" in logs or "2 members on cpu, from step 40" in logs
        assert "done: largest error of a weight" in logs
