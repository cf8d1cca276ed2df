"""What was kept of one member's log once its Pods are gone."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import Normaliser
from kajitori.blobs.logs import LogsOfRun
from kajitori.core.words.node_lists import compress_ranks
from kajitori.errors import NotFound
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import PODS

if TYPE_CHECKING:
    from kajitori.api.auth import User


class KeptOfMember:
    """Kept logs of one rank, attempt by attempt, for who may read those of Pods."""

    def __init__(self, user: User, run: RunObject, rank: int, kept: LogsOfRun | None) -> None:
        """Without `kept` nothing is: logs go with their Pods."""
        self._user = user
        self._run = run.metadata
        self._rank = rank
        self._kept = kept

    @property
    def is_kept(self) -> bool:
        """Whether logs are kept here at all."""
        return self._kept is not None

    async def require_right(self) -> None:
        """Raises Forbidden for who may not read them."""
        await self._user.require("get", self._run.namespace, resource=PODS, subresource="log")

    async def attempts(self, *, anew: bool = False) -> set[int]:
        """Of which attempts something was kept; `anew`: as it is now, whatever was found before."""
        listed = await self._kept.listed(refresh=anew) if self._kept is not None else []
        return {each.attempt for each in listed if each.rank == self._rank}

    async def read(self, attempt: int) -> bytes:
        """All that was kept of an attempt, with uniform stamps. Raises NotFound where nothing was, saying what was kept
        of others."""
        gone = f"the log of rank {self._rank} in attempt {attempt} is gone with its Pod"
        hint = f"what happened to it: kaji events {self._run.name}"
        if self._kept is None:
            raise NotFound(gone, hint=hint)
        await self.require_right()
        listed = await self._kept.listed()
        ranks = sorted(log.rank for log in listed if log.attempt == attempt)
        if self._rank not in ranks:
            if ranks:
                hint = f"of attempt {attempt} the logs of these ranks were kept: {compress_ranks(ranks)}"
            elif listed:
                hint = f"logs were kept of these attempts: {compress_ranks(sorted({log.attempt for log in listed}))}"
            raise NotFound(gone, hint=hint)
        return await self._text(self._kept, attempt)

    async def read_if_any(self, attempt: int) -> bytes:
        """The same, and nothing where nothing was."""
        if self._kept is None:
            return b""
        await self.require_right()
        try:
            return await self._text(self._kept, attempt)
        except NotFound:
            return b""

    async def _text(self, kept: LogsOfRun, attempt: int) -> bytes:
        normaliser = Normaliser()
        async with aclosing(kept.read(attempt, self._rank)) as chunks:
            text = b"".join([normaliser.feed(chunk).text async for chunk in chunks])
        return text + normaliser.flush().text
