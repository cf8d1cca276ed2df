"""PyTorch DistributedDataParallel on synthetic data: a linear model finds the weights that made the data.

An ordinary script for `torchrun`, or for any launcher that sets MASTER_ADDR, MASTER_PORT, NODE_RANK and NNODES: without
a launcher it is one process per member. It uses NCCL if there are GPUs, else gloo. Rank 0 writes a checkpoint every few
steps to KAJI_CHECKPOINT_DIR; an interrupted run continues from it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    sys.exit(f"This example needs PyTorch ({missing}). Install it: {sys.executable} -m pip install torch")

FEATURES = 32


def place() -> tuple[int, int, int]:
    """Return rank, world size and local rank: from torchrun, else from the platform's variables."""
    if "RANK" not in os.environ:
        os.environ["RANK"] = os.environ.get("NODE_RANK", os.environ.get("KAJI_RANK", "0"))
        os.environ["WORLD_SIZE"] = os.environ.get("NNODES", os.environ.get("KAJI_WORLD_SIZE", "1"))
        os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", "0"))


def batch_of(step: int, rank: int, size: int, truth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch of this step and rank, which is always the same."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(size, FEATURES, generator=generator)
    return inputs, inputs @ truth


def load(file: Path | None, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step to continue from. Every member reads the same file."""
    if file is None or not file.exists():
        return 0
    saved = torch.load(file, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def save(file: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Replace the file atomically, so that a complete one always exists."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.environ.get('KAJI_ATTEMPT', '0')}.tmp")
    with draft.open("wb") as out:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description="Data-parallel training with PyTorch on synthetic data.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per member and step")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--seconds-per-step", type=float, default=0.0, help="take at least this long for each step")
    options = parser.parse_args()

    rank, world_size, local_rank = place()
    use_gpu = torch.cuda.is_available()
    if use_gpu:
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if use_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if use_gpu else "gloo", rank=rank, world_size=world_size)
    try:
        torch.manual_seed(0)
        truth = torch.randn(FEATURES, 1)
        plain = torch.nn.Linear(FEATURES, 1, bias=False).to(device)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
        folder = os.environ.get("KAJI_CHECKPOINT_DIR")
        file = Path(folder) / "model.pt" if folder else None
        step = load(file, plain, optimizer)
        dist.barrier()
        model = DistributedDataParallel(plain, device_ids=[local_rank] if use_gpu else None)
        if rank == 0:
            print(f"{world_size} members on {device.type}, from step {step}", flush=True)
        while step < options.steps:
            due = time.monotonic() + options.seconds_per_step
            inputs, wanted = batch_of(step, rank, options.batch_size, truth)
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), wanted.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and (step % options.checkpoint_every == 0 or step == options.steps):
                print(f"step {step}/{options.steps} loss {loss.item():.6f}", flush=True)
                if file is not None:
                    save(file, step, plain, optimizer)
            time.sleep(max(0.0, due - time.monotonic()))
        if rank == 0:
            error = (plain.weight.detach().cpu().T - truth).abs().max().item()
            print(f"done: largest error of a weight {error:.6f}", flush=True)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
