"""Data-parallel training of a small network on scikit-learn's bundled digits.

An ordinary script: NumPy for the arithmetic, plain sockets between the members. Each member works on its share of a
batch; rank 0 sums the gradients in rank order and sends the sum back, so all members always hold the same parameters.

It reads KAJI_RANK, KAJI_WORLD_SIZE, KAJI_ATTEMPT, KAJI_CHECKPOINT_DIR, MASTER_ADDR and MASTER_PORT, and runs alone
if they are not set. Rank 0 writes a checkpoint every few steps. An interrupted run continues from it and ends with
exactly the parameters of an undisturbed one, because batches depend only on the step. It may continue with another
number of members: the size of a batch does not change, so that only the last digits differ.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import signal
import socket
import struct
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

# One thread per member: members share a machine in the demo, and sums in a fixed order give the same bits each time.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

NEEDED = f"This example needs scikit-learn. Install it: {sys.executable} -m pip install scikit-learn"
try:
    import numpy as np
except ImportError:
    sys.exit(NEEDED)

PIXELS, CLASSES = 64, 10
TEST_IMAGES = 360
HELLO = struct.Struct("!4sIII")  # magic, attempt, world size, rank
MAGIC = b"DGT1"


class PeerLost(Exception):
    """Another member does not answer any more; training cannot continue without it."""


@dataclass(frozen=True)
class Place:
    """Rank of this member, and the address where members meet."""

    rank: int
    world_size: int
    attempt: int
    master: tuple[str, int]

    @classmethod
    def from_environment(cls) -> Place:
        read = os.environ.get
        rank, world_size = int(read("KAJI_RANK", "0")), int(read("KAJI_WORLD_SIZE", "1"))
        if not 0 <= rank < world_size:
            sys.exit(f"KAJI_RANK is {rank}, but KAJI_WORLD_SIZE is {world_size}")
        if world_size > 1 and "MASTER_PORT" not in os.environ:
            sys.exit("MASTER_ADDR and MASTER_PORT are not set: start this run with `launcher: torchrun`")
        master = (read("MASTER_ADDR", "127.0.0.1"), int(read("MASTER_PORT", "0")))
        return cls(rank, world_size, int(read("KAJI_ATTEMPT", "1")), master)


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images of 8 x 8 pixels from 0 to 16, and their digits. Importing scikit-learn is the slowest part."""
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        sys.exit(NEEDED)
    with gzip.open(Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :PIXELS], table[:, PIXELS].astype(int)


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """One hidden layer (tanh), softmax at the end. All parameters are in one flat vector of float64."""

    hidden: int

    @property
    def size(self) -> int:
        return PIXELS * self.hidden + self.hidden + self.hidden * CLASSES + CLASSES

    def initial(self, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        parameters = np.zeros(self.size)
        w1, _, w2, _ = self.parts(parameters)
        w1[:] = random.normal(scale=PIXELS**-0.5, size=w1.shape)
        w2[:] = random.normal(scale=self.hidden**-0.5, size=w2.shape)
        return parameters

    def parts(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Views of the vector as weights and biases of both layers."""
        a, b = PIXELS * self.hidden, PIXELS * self.hidden + self.hidden
        c = b + self.hidden * CLASSES
        return flat[:a].reshape(PIXELS, self.hidden), flat[a:b], flat[b:c].reshape(self.hidden, CLASSES), flat[c:]

    def log_probabilities(self, parameters: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w1, b1, w2, b2 = self.parts(parameters)
        activity = np.tanh(images @ w1 + b1)
        scores = activity @ w2 + b2
        scores = scores - scores.max(axis=1, keepdims=True)
        return activity, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def gradient(self, parameters: np.ndarray, images: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum over the images of the cross-entropy loss, and its gradient."""
        activity, logs = self.log_probabilities(parameters, images)
        rows = np.arange(len(labels))
        loss = -logs[rows, labels].sum()
        error = np.exp(logs)
        error[rows, labels] -= 1.0
        gradient = np.empty(self.size)
        g1, gb1, g2, gb2 = self.parts(gradient)
        g2[:], gb2[:] = activity.T @ error, error.sum(axis=0)
        back = (error @ self.parts(parameters)[2].T) * (1.0 - activity**2)
        g1[:], gb1[:] = images.T @ back, back.sum(axis=0)
        return float(loss), gradient

    def accuracy(self, parameters: np.ndarray, images: np.ndarray, labels: np.ndarray) -> float:
        return float((self.log_probabilities(parameters, images)[1].argmax(axis=1) == labels).mean())


# --- members talking to each other -----------------------------------------------------------------------------------


def send(peer: socket.socket, vector: np.ndarray) -> None:
    try:
        peer.sendall(vector.astype("<f8").tobytes())
    except OSError as cause:
        raise PeerLost(str(cause)) from cause


def receive(peer: socket.socket, count: int) -> np.ndarray:
    return np.frombuffer(receive_bytes(peer, count * 8), dtype="<f8").copy()


def receive_bytes(peer: socket.socket, length: int) -> bytes:
    buffer = bytearray()
    while len(buffer) < length:
        try:
            chunk = peer.recv(length - len(buffer))
        except OSError as cause:
            raise PeerLost(str(cause)) from cause
        if not chunk:
            raise PeerLost("connection closed")
        buffer += chunk
    return bytes(buffer)


class Gang:
    """The connections among the members: a star around rank 0."""

    def __init__(self, place: Place, timeout_seconds: float) -> None:
        self.place = place
        self.timeout_seconds = timeout_seconds
        self.peers: dict[int, socket.socket] = {}

    def meet(self, state: np.ndarray | None, state_size: int) -> np.ndarray:
        """Wait until all members are there; every member returns rank 0's state."""
        if self.place.world_size == 1:
            assert state is not None
            return state
        deadline = time.monotonic() + self.timeout_seconds
        if self.place.rank != 0:
            return self._join(state_size, deadline)
        assert state is not None
        self._gather(deadline)
        for rank in sorted(self.peers):
            self._with(rank, lambda peer: send(peer, state))
        return state

    def sum(self, vector: np.ndarray) -> np.ndarray:
        """The sum of every member's vector, added in rank order; the same bits on every member."""
        if self.place.world_size == 1:
            return vector
        if self.place.rank != 0:
            self._with(0, lambda peer: send(peer, vector))
            return self._with(0, lambda peer: receive(peer, len(vector)))
        total = vector.copy()
        for rank in sorted(self.peers):
            total += self._with(rank, lambda peer: receive(peer, len(vector)))
        for rank in sorted(self.peers):
            self._with(rank, lambda peer: send(peer, total))
        return total

    def _with(self, rank, exchange):  # type: ignore[no-untyped-def]
        try:
            return exchange(self.peers[rank])
        except PeerLost as cause:
            raise PeerLost(f"lost rank {rank}: {cause}") from cause

    def _gather(self, deadline: float) -> None:
        place = self.place
        with socket.create_server(("", place.master[1]), backlog=place.world_size) as server:
            while len(self.peers) < place.world_size - 1:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                try:
                    peer, address = server.accept()
                except TimeoutError:
                    missing = sorted(set(range(1, place.world_size)) - set(self.peers))
                    raise PeerLost(f"after {self.timeout_seconds:.0f} s these ranks are missing: {missing}") from None
                peer.settimeout(5)
                try:
                    magic, attempt, world_size, rank = HELLO.unpack(receive_bytes(peer, HELLO.size))
                except PeerLost:
                    peer.close()
                    continue
                # A member of an earlier attempt may still be alive on a node that was cut off.
                if (magic, attempt, world_size) != (MAGIC, place.attempt, place.world_size) or rank == 0:
                    say(f"turned away a stranger at {address[0]} (attempt {attempt}, rank {rank})")
                    peer.close()
                    continue
                self._prepare(peer)
                if rank in self.peers:
                    self.peers[rank].close()
                self.peers[rank] = peer

    def _join(self, state_size: int, deadline: float) -> np.ndarray:
        place, why = self.place, "no member listens yet"
        while time.monotonic() < deadline:
            try:
                peer = socket.create_connection(place.master, timeout=max(0.01, deadline - time.monotonic()))
                peer.sendall(HELLO.pack(MAGIC, place.attempt, place.world_size, place.rank))
                self._prepare(peer)
                state = receive(peer, state_size)
            except (OSError, PeerLost) as cause:  # rank 0 is not up yet, or still that of the last attempt
                why = str(cause)
                time.sleep(0.1)
                continue
            self.peers[0] = peer
            return state
        raise PeerLost(f"rank 0 at {place.master[0]}:{place.master[1]} did not answer in time ({why})")

    def _prepare(self, peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(self.timeout_seconds)


# --- checkpoints -----------------------------------------------------------------------------------------------------


class Checkpoints:
    """One file, replaced atomically: if this process is killed, either the old or the new file is complete."""

    def __init__(self, folder: Path, description: str, attempt: int) -> None:
        self.file = folder / "digits.npz"
        self.description = description
        self.attempt = attempt

    def load(self) -> np.ndarray | None:
        """Return the state to continue from, or None."""
        if not self.file.exists():
            return None
        try:
            with np.load(self.file) as saved:
                description, state = str(saved["description"]), np.array(saved["state"])
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as cause:
            sys.exit(f"{self.file} can't be read as a checkpoint of this example ({cause}). Remove it to start anew.")
        if description != self.description:
            sys.exit(
                f"{self.file} is the checkpoint of another training ({description}; this is {self.description}). "
                "Remove it, or use another checkpoint folder."
            )
        return state

    def save(self, state: np.ndarray) -> None:
        if self.file.exists():
            with np.load(self.file) as saved:
                newer = int(saved["attempt"])
            if newer > self.attempt:
                sys.exit(f"attempt {newer} has taken over; attempt {self.attempt} writes no more checkpoints")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_name(f".digits-{self.attempt}.tmp")
        with draft.open("wb") as out:
            np.savez(out, state=state, description=np.array(self.description), attempt=np.array(self.attempt))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self.file)
        folder = os.open(self.file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# --- training --------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network on scikit-learn's digits, data-parallel.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=128, help="images per step, of all members together")
    parser.add_argument("--hidden", type=int, default=32, help="width of the hidden layer")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--report-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--seconds-per-step", type=float, default=0.0, help="take at least this long for each step")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="how long to wait for a member")
    return parser.parse_args()


class Stop:
    """Whether SIGTERM came: the platform ends this member, and there is time for one checkpoint.

    Outside of training there is nothing to save, and SIGTERM ends the process at once. (The first process of a
    container has to handle SIGTERM itself: the kernel's default does not apply to it.)
    """

    def __init__(self) -> None:
        self.asked = False
        self.training = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if not self.training:
            sys.exit(128 + signal.SIGTERM)


def train(options: argparse.Namespace, place: Place, checkpoints: Checkpoints | None, stop: Stop) -> None:
    pixels, labels = load_digits()
    images = pixels / 16.0
    order = np.random.default_rng(0).permutation(len(labels))
    train_images, train_labels = images[order[TEST_IMAGES:]], labels[order[TEST_IMAGES:]]
    test_images, test_labels = images[order[:TEST_IMAGES]], labels[order[:TEST_IMAGES]]

    # The state is one vector, so that it travels and is saved as a whole: step, parameters, velocities.
    model = Model(options.hidden)
    state = None
    if place.rank == 0:
        state = checkpoints.load() if checkpoints else None
        where = "from the start" if state is None else f"from the checkpoint of step {int(state[0])}"
        say(f"attempt {place.attempt}, {place.world_size} members: {where}")
        if state is None:
            state = np.concatenate([[0.0], model.initial(options.seed), np.zeros(model.size)])
    gang = Gang(place, options.timeout)
    state = gang.meet(state, 1 + 2 * model.size)
    say(f"rank {place.rank} of {place.world_size} is in, process {os.getpid()}")

    stop.training = True
    while (step := int(state[0])) < options.steps:
        due = time.monotonic() + options.seconds_per_step
        batch = np.random.default_rng([options.seed, step]).choice(len(train_labels), options.batch_size, replace=False)
        mine = np.array_split(batch, place.world_size)[place.rank]
        parameters, velocity = state[1 : 1 + model.size], state[1 + model.size :]
        loss, gradient = model.gradient(parameters, train_images[mine], train_labels[mine])
        try:
            total = gang.sum(np.append(gradient, loss)) / options.batch_size
        except PeerLost:
            if stop.asked:
                leave(state, checkpoints)
            raise
        velocity = options.momentum * velocity - options.learning_rate * total[:-1]
        state = np.concatenate([[step + 1.0], parameters + velocity, velocity])
        step += 1
        if place.rank == 0 and (step % options.report_every == 0 or step == options.steps):
            accuracy = model.accuracy(state[1 : 1 + model.size], test_images, test_labels)
            say(f"step {step}/{options.steps} loss {total[-1]:.4f} accuracy {accuracy:.4f}")
        if checkpoints and (step % options.checkpoint_every == 0 or step == options.steps):
            checkpoints.save(state)
        if stop.asked:
            leave(state, checkpoints)
        time.sleep(max(0.0, due - time.monotonic()))

    accuracy = model.accuracy(state[1 : 1 + model.size], test_images, test_labels)
    say(f"done: {options.steps} steps, accuracy {accuracy:.4f} on {TEST_IMAGES} images it never saw")


def leave(state: np.ndarray, checkpoints: Checkpoints | None) -> NoReturn:
    if checkpoints:
        checkpoints.save(state)
        say(f"asked to stop: checkpoint of step {int(state[0])} written")
    sys.exit(128 + signal.SIGTERM)


def main() -> None:
    stop = Stop()
    options, place = arguments(), Place.from_environment()
    folder = os.environ.get("KAJI_CHECKPOINT_DIR", "")
    checkpoints = None
    if folder and place.rank == 0:
        description = f"hidden {options.hidden}, batch {options.batch_size}, rate {options.learning_rate}, "
        description += f"momentum {options.momentum}, seed {options.seed}"
        checkpoints = Checkpoints(Path(folder), description, place.attempt)
    try:
        train(options, place, checkpoints, stop)
    except PeerLost as lost:
        sys.exit(128 + signal.SIGTERM if stop.asked else f"rank {place.rank}: {lost}")


if __name__ == "__main__":
    main()
