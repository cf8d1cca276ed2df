"""The stored logs of one member, which outlive its Pods."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import Normaliser
from kajitori.blobs.logs import LogsOfRun
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.errors import NotFound
from kajitori.kube.resources import PODS

if TYPE_CHECKING:
    from kajitori.api.rights import User


class KeptMemberLogs:
    """Stored logs of one rank by attempt, for users who may read the logs of Pods."""

    def __init__(self, user: User, run: RunObject, rank: int, kept: LogsOfRun | None) -> None:
        """Without `kept` there is no store, and logs are deleted with their Pods."""
        self._user = user
        self._run = run.metadata
        self._rank = rank
        self._kept = kept

    @property
    def is_kept(self) -> bool:
        """Whether this server has a store for logs."""
        return self._kept is not None

    async def require_right(self) -> None:
        """Raise Forbidden unless the user may read the logs of Pods in the namespace."""
        await self._user.require("get", self._run.namespace, resource=PODS, subresource="log")

    async def attempts(self, *, refresh: bool = False) -> set[int]:
        """Return the attempts with a stored log. With `refresh`, an earlier listing is not reused."""
        listed = await self._kept.listed(refresh=refresh) if self._kept is not None else []
        return {log.attempt for log in listed if log.rank == self._rank}

    async def read(self, attempt: int) -> bytes:
        """Return the stored log of an attempt, with uniform stamps. Raises NotFound, with the logs that are stored, if
        there is none."""
        gone = f"the log of rank {self._rank} in attempt {attempt} is gone with its Pod"
        hint = f"see what happened to it: kaji events {self._run.name}"
        if self._kept is None:
            raise NotFound(gone, hint=hint)
        await self.require_right()
        listed = await self._kept.listed()
        ranks = sorted(log.rank for log in listed if log.attempt == attempt)
        if self._rank not in ranks:
            if ranks:
                hint = f"attempt {attempt} has stored logs of these ranks: {compress_ranks(ranks)}"
            elif listed:
                hint = f"these attempts have stored logs: {compress_ranks(sorted({log.attempt for log in listed}))}"
            raise NotFound(gone, hint=hint)
        return await self._text(self._kept, attempt)

    async def read_if_any(self, attempt: int) -> bytes:
        """Return the stored log of an attempt; empty if there is none."""
        if self._kept is None:
            return b""
        await self.require_right()
        try:
            return await self._text(self._kept, attempt)
        except NotFound:
            return b""

    async def _text(self, kept: LogsOfRun, attempt: int) -> bytes:
        """Return the stored log of an attempt, with uniform stamps. Raises NotFound if there is none."""
        normaliser = Normaliser()
        async with aclosing(kept.read(attempt, self._rank)) as chunks:
            text = b"".join([normaliser.feed(chunk).text async for chunk in chunks])
        return text + normaliser.flush().text
