"""The result of one member of a sweep: a small record that outlives the member's Pod."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Order = Literal["lowest", "highest"]
"""Whether high or low values are better."""

PLAIN = "result"
"""Name of the value of a result that is a number instead of a mapping."""


class MemberResult(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One row of a sweep's table of results."""

    index: int
    state: str
    """Waiting, Pending, Running, Succeeded or Failed; NotRun if the sweep ended without starting it."""
    attempt: int = 0
    """Number of the run's attempt in which it was last started; it is part of its Pod's name."""
    restarts: int = 0
    """How often its program was started again after a failure."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    started_at: str = ""
    ended_at: str = ""
    peak_bytes: int = 0
    """Peak memory, as reported by its node; 0 if unknown."""
    result: Any = None
    """Content of the file named by KAJI_RESULT: parsed as JSON if possible, else the text."""


_decoder = msgspec.json.Decoder(MemberResult)


def encode(result: MemberResult) -> bytes:
    """Return the record as it is stored."""
    return msgspec.json.encode(result)


def decode(record: bytes) -> MemberResult:
    """Return the stored record. Raises ValueError if it cannot be decoded."""
    return _decoder.decode(record)


def parse_result(message: str, *, succeeded: bool) -> Any:
    """Return the result in a container's termination message; None if it has none.

    A succeeded program may write any text. For a failed one only JSON counts: if it wrote nothing, Kubernetes puts
    the end of its log there.
    """
    text = message.strip()
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text if succeeded else None


_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]?|[A-Z]?[a-z]+[0-9]?", re.ASCII)
# fmt: off
_HIGHER = frozenset({
    "acc", "accuracy", "ap", "auc", "auroc", "bleu", "correct", "dice", "f1", "iou", "map", "miou", "mrr", "ndcg",
    "precision", "psnr", "r2", "recall", "return", "reward", "rouge", "score", "speedup", "ssim", "success",
    "throughput", "top1", "top5",
})
_LOWER = frozenset({
    "bpb", "bpc", "cer", "cost", "divergence", "eer", "err", "error", "fid", "kl", "loss", "mae", "mape", "mse", "nll",
    "perplexity", "ppl", "regret", "rmse", "wer",
})
# fmt: on
_ON_OTHER_DATA = frozenset({"dev", "eval", "evaluation", "held", "test", "val", "valid", "validation"})


def values_of(result: Any) -> dict[str, float]:
    """Return the finite numbers in a result by their names; a result that is a number itself has the name `result`."""
    named = result if isinstance(result, dict) else {PLAIN: result}
    return {name: value for name, value in named.items() if _is_number(value)}


def order_of(name: str) -> Order | None:
    """Return whether high or low values of this name are better, judged by the words in it; None if they do not
    tell.
    """
    for word in reversed(_words_in(name)):
        if word in _LOWER:
            return "lowest"
        if word in _HIGHER:
            return "highest"
    return None


def objective_of(names: Iterable[str]) -> str:
    """Return the name that most likely tells how good a member is: one on validation data before one on training data.

    Empty if no name tells.
    """
    known = [name for name in names if order_of(name) is not None]
    return min(known, key=lambda name: _ON_OTHER_DATA.isdisjoint(_words_in(name)), default="")


def _words_in(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
