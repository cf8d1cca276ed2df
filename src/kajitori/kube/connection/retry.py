"""Decides which failed requests are retried, and after how long."""

from __future__ import annotations

from dataclasses import dataclass

from kajitori.core.backoff import backoff_seconds
from kajitori.kube.errors import ApiError, ConnectionFailed, ServerError, StorageFullError, TooManyRequestsError

_SLOW_DOWN = (429, 503)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of retries. Times are in seconds.

    The pause before the n-th retry is drawn evenly between zero and `base_seconds`·2ⁿ, at most `cap_seconds` ("full
    jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), plus what the server asked for.
    """

    attempts: int = 5
    """Number of tries of one request, including the first."""
    total_seconds: float = 20.0
    """Time after the first try in which a retry may begin."""
    base_seconds: float = 0.2
    cap_seconds: float = 5.0

    def pause(
        self, error: ApiError | ConnectionFailed, *, tried: int, elapsed_seconds: float, idempotent: bool, chance: float
    ) -> float | None:
        """Return the seconds to wait before a retry, or None if a retry would do harm or is no longer allowed.

        `tried` counts the tries so far; `idempotent` means that sending the request twice has the effect of sending it
        once; `chance` is random, in [0, 1).
        """
        if tried >= self.attempts or not worth_retrying(error, idempotent=idempotent):
            return None
        pause = jittered(self.base_seconds, self.cap_seconds, tried - 1, chance)
        if isinstance(error, ApiError) and error.retry_after_seconds is not None:
            pause += error.retry_after_seconds
        return pause if elapsed_seconds + pause <= self.total_seconds else None


NO_RETRY = RetryPolicy(attempts=1)


def worth_retrying(error: ApiError | ConnectionFailed, *, idempotent: bool) -> bool:
    """Return whether the same request may succeed later and does no harm if it is carried out twice."""
    if isinstance(error, ConnectionFailed):
        return idempotent or not error.maybe_applied
    if error.status in _SLOW_DOWN and error.retry_after_seconds is not None:
        return True  # such an answer says that nothing was done
    if isinstance(error, StorageFullError):
        return False  # it fails until someone frees space
    return idempotent and isinstance(error, ServerError | TooManyRequestsError)


def jittered(base_seconds: float, cap_seconds: float, step: int, chance: float) -> float:
    """Return a pause of full jitter for the step-th failure in a row, counted from 0."""
    return chance * backoff_seconds(step + 1, base_seconds, cap_seconds)
