"""The results of a sweep: the state, exit code and message of each member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import PageParameters, decode_token, encode_token
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run_or_record
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.runs.members.ranks import array_of
from kajitori.api.views.runs import ResultList
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.cluster.runs.sweep_results import result_of
from kajitori.core.gang.sweep_ledger import Ledger
from kajitori.core.gang.sweeps.results import MemberResult, Order, objective_of, order_of, values_of
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault, InvalidInput, KajitoriError

router = APIRouter(tags=["runs"])

StateWord = Literal["Waiting", "Pending", "Running", "Succeeded", "Failed", "NotRun"]


class ResultParameters(PageParameters):
    state: list[StateWord] = Field(default_factory=list, max_length=6)
    """Only members in one of these states."""
    best: bool = False
    """Return members that succeeded and have a number named `by` in their result, the best first."""
    by: str = Field(default="", max_length=4096)
    """With `best`: a name in the results, such as `loss`. Default: a known measure of quality (loss, accuracy and
    others), preferably on validation data."""
    order: Order | None = None
    """With `best`: whether high or low values are better. Default: high for known measures such as accuracy, else
    low."""


@router.get(
    "/v1/runs/{namespace}/{name}/results", responses=describes(ResultList), summary="The results of a sweep's members"
)
async def list_results(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[ResultParameters, Query()]
) -> Response:
    """One row per member, whether or not it has run. Rows of ended members are kept as long as the run exists."""
    _check_best(query)
    run = await find_run_or_record(api, user, namespace, name)
    table = _Table(api, run)
    if query.best:
        return answer(await _best(table, query))
    after = decode_token(query.continue_, int) if query.continue_ else -1
    indices = [index for index in table.indices if index > after]
    if query.state:
        indices = [index for index in indices if table.state_of(index) in query.state]
    page = indices[: query.limit]
    rows, incomplete = await table.rows(page)
    following = encode_token(page[-1]) if len(indices) > len(page) else None
    return answer(ResultList(items=rows, continue_=following, incomplete=incomplete))


def _check_best(query: ResultParameters) -> None:
    """Raise InvalidInput for parameters that need `best`, and for those that contradict it."""
    faults = []
    if query.best and query.state:
        faults.append(Fault("state", "cannot be combined with best, which lists members that succeeded"))
    for name, value in (("by", query.by), ("order", query.order)):
        if value and not query.best:
            faults.append(Fault(name, "needs best", value[:80], "add best=true"))
    if faults:
        raise InvalidInput(faults)


async def _best(table: _Table, query: ResultParameters) -> ResultList:
    """Return a page of the members with the best values. Raises InvalidInput if no result has the named value."""
    after = decode_token(query.continue_, tuple[float, int]) if query.continue_ else None
    rows, incomplete = await table.rows([index for index in table.indices if table.state_of(index) == "Succeeded"])
    values = {row.index: values_of(row.result) for row in rows}
    names = list(dict.fromkeys(name for numbers in values.values() for name in numbers))
    by = query.by or objective_of(names)
    if query.by and names and query.by not in names:
        hint = did_you_mean(query.by, names)
        raise InvalidInput.one("by", "is a number in no result of this sweep", value=query.by, hint=hint)
    order = query.order or order_of(by) or "lowest"
    sign = 1 if order == "lowest" else -1
    places = sorted((sign * numbers[by], index) for index, numbers in values.items() if by in numbers)
    places = [place for place in places if after is None or place > after]
    page = places[: query.limit]
    by_index = {row.index: row for row in rows}
    following = encode_token(page[-1]) if len(places) > len(page) else None
    items = [by_index[index] for _, index in page]
    return ResultList(
        items=items, continue_=following, incomplete=incomplete, by=by, order=order if by else "", names=names
    )


class _Table:
    """Results of a sweep's members, from the run's status, the members' Pods and the store."""

    def __init__(self, api: Api, run: RunObject) -> None:
        array = array_of(run)
        if array is None:
            hint = "kaji run --array starts a sweep, whose members have results"
            raise InvalidInput.one("", f"{run.metadata.name} is not a sweep", value=run.metadata.name, hint=hint)
        self.indices: Iterable[int] = array.indices
        self._api = api
        self._run = run
        status = run.status
        self._is_over = status is not None and status.phase.is_final
        self._ledger = Ledger.of(status.sweep if status is not None else None)
        self._notes = {note.rank: note for note in status.notable} if status is not None else {}
        self._resumes = status.resumes if status is not None else 0
        self._pods: dict[int, Pod] = newest_pods(api.mirror.pods_of_run(run))

    def state_of(self, index: int) -> str:
        if index in self._ledger.succeeded:
            return "Succeeded"
        if index in self._ledger.failed:
            return "Failed"
        live = self._live(index)
        return live.state if live is not None else "NotRun" if self._is_over else "Waiting"

    async def rows(self, indices: list[int]) -> tuple[list[MemberResult], str]:
        """Return the rows of these members, and why some lack details; an empty text if none does."""
        ended = [index for index in indices if self._ledger.has_ended(index)]
        settled = [index for index in ended if index not in self._pods]  # a Pod goes once its record is stored
        with_pod = [index for index in ended if index in self._pods]
        kept: dict[int, MemberResult] = {}
        incomplete = ""
        if ended and self._api.stores.logs is None:
            incomplete = "this server has no blob store, which keeps the details"
        elif ended and self._api.stores.logs is not None:
            meta = self._run.metadata
            results = self._api.stores.logs.results
            try:
                kept = await results.read_settled(meta.namespace, meta.uid, self._resumes, settled)
                kept |= await results.read(meta.namespace, meta.uid, with_pod)
            except KajitoriError as error:
                incomplete = error.message
        return [self._row(index, kept.get(index)) for index in indices], incomplete

    def _row(self, index: int, kept: MemberResult | None) -> MemberResult:
        state, restarts = self.state_of(index), self._ledger.restarts.get(index, 0)
        if kept is not None and kept.state == state:
            return kept
        live = self._live(index)
        if live is not None and (live.state == state or not self._ledger.has_ended(index)):
            return msgspec.structs.replace(live, restarts=restarts)
        note = self._notes.get(index)
        if state == "Failed" and note is not None:
            return MemberResult(
                index=index,
                state=state,
                attempt=note.attempt,
                restarts=restarts,
                exit_code=note.exit_code,
                reason=note.reason,
                message=note.message,
                node=note.node,
                ended_at=note.since,
            )
        return MemberResult(index=index, state=state, restarts=restarts)

    def _live(self, index: int) -> MemberResult | None:
        """Return the result that the member's Pod shows; None without a Pod, or if the member will be started again."""
        pod = self._pods.get(index)
        member = member_of(pod, self._api.mirror.nodes) if pod is not None else None
        if pod is None or member is None or index in self._ledger.again:
            return None
        return result_of(pod, member, self._ledger.restarts.get(index, 0))
