"""Calls of functions: clients add them and read their outcomes, and the workers of the run do them.

Arguments and values are pickles, which are opaque to the server. Workers carry a token that the client made and that is
in the run's code alone; the server knows its SHA-256.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response
from starlette.types import Scope

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.requests.bodies import JSON, body_of, require_media_type, takes
from kajitori.api.requests.middleware import note_caller
from kajitori.api.rights import User
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.views.calls import CallOutcome, CallOutcomes, CallsAdded, CallWork, TakenCall
from kajitori.blobs.calls import CallLogs
from kajitori.cluster.run_object import RunObject
from kajitori.core.calls.queue import CallQueue, Entry, Outcome, Worker
from kajitori.core.documents.faults import Document
from kajitori.errors import Forbidden, InvalidInput, TooLarge, Unauthenticated, Unsupported

router = APIRouter(tags=["calls"])

LONGEST_WAIT_SECONDS = 20.0
LOOK_SECONDS = 1.0
"""Time between two searches for entries of other servers and for workers that have ended."""
ANSWER_BYTES = 8 << 20
BODY_BYTES = 12 << 20
"""Longest body of a request: the largest value that policy may allow, in base64."""
MAX_ADDED = 10_000
"""Most calls in one request."""
MAX_NUMBER = 2**53 - 1
"""Largest number of a call, of an item or of a place in the log: every JSON reader knows it exactly."""


class CallsRequest(Document):
    """Calls to add. Adding the same numbers again changes nothing, so a request may be repeated."""

    first: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Number of the first of these calls. Calls are numbered from 0, without gaps."""
    arguments: list[str] = Field(default_factory=list, max_length=MAX_ADDED)
    """Pickled arguments of each call in base64."""
    closed: bool = False
    """No more calls come, so workers without work end."""
    token: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """SHA-256 of the workers' token. The first request sets it, and later ones that add calls need the same."""
    cancel: list[int] = Field(default_factory=list, max_length=MAX_ADDED)
    """Calls to cancel, in a request without `arguments` and `closed`. Calls that have ended stay as they are."""


class WorkerOutcome(Document):
    """The outcome of a call."""

    call: int = Field(ge=0, le=MAX_NUMBER)
    kind: str = Field(pattern="^(value|error|item|end)$")
    """value, error, item (of a generator that goes on) or end (of a generator)."""
    part: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Number of the item."""
    value: str = ""
    """The pickled value in base64."""


class WorkRequest(Document):
    """A worker hands in outcomes and asks for calls."""

    rank: int = Field(ge=0, le=99_999)
    attempt: int = Field(ge=0, le=10**9)
    process: str = Field(min_length=1, max_length=64)
    """A random word that another process of the member does not have."""
    outcomes: list[WorkerOutcome] = Field(default_factory=list, max_length=MAX_ADDED)
    want: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Most calls that it takes. 0: it still has some."""
    doing: list[int] = Field(default_factory=list, max_length=MAX_ADDED)
    """Calls that it has taken and not handed in: the answer names those that have ended meanwhile."""
    returned: list[int] = Field(default_factory=list, max_length=MAX_ADDED)
    """Calls that it has taken and not begun, and leaves to other workers, because the present one takes long."""


class OutcomeParameters(Parameters):
    after: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """`next` of the answer before; 0 for all outcomes."""
    wait: float = Field(default=0, ge=0, le=LONGEST_WAIT_SECONDS)
    """Seconds to wait for new outcomes."""


def body_limit(scope: Scope) -> int:
    """Return the limit of a request's body in bytes; 0 for requests that are not about calls."""
    path = str(scope["path"])
    is_ours = path.startswith("/v1/members/calls/") or (path.startswith("/v1/runs/") and path.endswith("/calls"))
    return BODY_BYTES if is_ours and scope["method"] == "POST" else 0


RunName = Annotated[str, Path(description="The run's whole name.")]


@router.post(
    "/v1/runs/{namespace}/{name}/calls",
    responses=describes(CallsAdded),
    openapi_extra=takes(CallsRequest),
    summary="Add calls for a run's workers, or cancel some",
)
async def add_calls(api: Shared, user: Caller, request: Request, namespace: str, name: RunName) -> Response:
    """Needs the right to create runs in the namespace, and the token that the first request set. With `cancel`, ends
    these calls and needs no token: a worker that does one of them interrupts it within seconds. 413 for arguments over
    the policy's limit."""
    require_media_type(request, JSON)
    logs, run = await _for_client(api, user, namespace, name)
    asked = await body_of(request, CallsRequest)
    if asked.cancel and (asked.arguments or asked.closed):
        hint = "send two requests"
        raise InvalidInput.one("cancel", "calls are cancelled by a request that adds none", hint=hint)
    payloads = [_decoded(text, f"arguments[{index}]") for index, text in enumerate(asked.arguments)]
    _require_small(api, payloads, "arguments")

    def build(state: CallQueue) -> Entry | None:
        if asked.cancel:
            outcomes = state.cancelled(asked.cancel)
            return Entry(outcomes=outcomes, payloads=[b""] * len(outcomes)) if outcomes else None
        if not (state.token or asked.token):
            raise InvalidInput.one("token", "is required")
        if state.token and not hmac.compare_digest(asked.token, state.token):
            message = f"the calls of {name} were begun with another token"
            raise Forbidden(message, hint="only who began them may add calls: workers would run what they contain")
        if asked.first > state.added:
            message = f"is {asked.first}, and calls up to {state.added} were added"
            raise InvalidInput.one("first", message, value=str(asked.first), hint="calls are numbered without gaps")
        new = payloads[state.added - asked.first :]
        if not new and state.token and state.closed >= asked.closed:
            return None
        return Entry(token=asked.token, first=state.added, added=len(new), closed=asked.closed, payloads=new)

    state, entry = await logs.append(namespace, run.metadata.uid, build)
    cancelled = len(entry.outcomes) if entry is not None else 0
    return answer(CallsAdded(added=state.added, closed=state.closed, cancelled=cancelled, over=state.is_over))


@router.get(
    "/v1/runs/{namespace}/{name}/calls", responses=describes(CallOutcomes), summary="The outcomes of a run's calls"
)
async def list_outcomes(
    api: Shared, user: Caller, namespace: str, name: RunName, query: Annotated[OutcomeParameters, Query()]
) -> Response:
    """In the order in which they came. Needs the right to create runs in the namespace. Waits if there is no new one.
    Outcomes are kept as long as the run exists."""
    logs, run = await _for_client(api, user, namespace, name)
    uid, clock = run.metadata.uid, asyncio.get_running_loop().time
    until, place, items = clock() + query.wait, query.after, []
    while True:
        entries, following = await logs.entries(namespace, uid, place, ANSWER_BYTES)
        items = [_view(outcome, payload) for entry in entries for outcome, payload in _outcomes_of(entry)]
        state, left, place = await logs.state(namespace, uid), until - clock(), following
        if items or left <= 0 or state.is_over:
            break
        await logs.wait_for_more(namespace, uid, place, min(left, LOOK_SECONDS))
    return answer(CallOutcomes(items=items, next=place, added=state.added, ended=len(state.ended), closed=state.closed))


@router.post(
    "/v1/members/calls/{namespace}/{name}",
    responses=describes(CallWork),
    openapi_extra=takes(WorkRequest) | {"security": [{"ticket": []}]},
    summary="Report outcomes and take calls as a worker of the run",
)
async def work(api: Shared, request: Request, namespace: str, name: RunName) -> Response:
    """Needs the token of the run's calls. Waits if there is no call to take. If a worker dies, another one gets its
    call; after three workers the call counts as lost."""
    require_media_type(request, JSON)
    run = api.mirror.runs.get((namespace, name))
    has_calls = run is not None and api.stores.logs is not None
    state = await _logs(api).state(namespace, run.metadata.uid) if run is not None and has_calls else CallQueue()
    if run is None or not _has_token(request, state):
        raise Unauthenticated("this is not the token of this run's calls", hint="it is in the run's code")
    note_caller(request, f"{namespace}/{name}")
    asked = await body_of(request, WorkRequest)
    payloads = [_decoded(one.value, f"outcomes[{index}].value") for index, one in enumerate(asked.outcomes)]
    _require_small(api, payloads, "result")
    outcomes = [Outcome(one.call, one.kind, one.part) for one in asked.outcomes]
    worker = Worker(asked.rank, asked.attempt, asked.process)
    taken = await _work(api, _logs(api), run, worker, outcomes, payloads, asked)
    if asked.doing:
        taken.ended = sorted(state.ended.intersection(asked.doing))
    return answer(taken)


async def _work(
    api: Api,
    logs: CallLogs,
    run: RunObject,
    worker: Worker,
    outcomes: list[Outcome],
    payloads: list[bytes],
    asked: WorkRequest,
) -> CallWork:
    """Store the outcomes of a worker, and return the calls that it takes. Waits if there is no call to take."""
    namespace, uid, clock = run.metadata.namespace, run.metadata.uid, asyncio.get_running_loop().time
    ended = {outcome.call for outcome in outcomes if outcome.is_last}
    until = clock() + LONGEST_WAIT_SECONDS

    def build(state: CallQueue) -> Entry | None:
        kept = state.new_outcomes(outcomes)
        returned = state.held_by(worker, asked.returned)
        taken, lost = state.work_for(worker, asked.want, ended, partial(_is_alive, api, run))
        if not (kept or returned or taken or lost):
            return None
        return Entry(
            worker=worker,
            outcomes=[outcomes[position] for position in kept] + [Outcome(call, "lost") for call in lost],
            payloads=[payloads[position] for position in kept] + [b""] * len(lost),
            taken=taken,
            returned=returned,
        )

    while True:
        state, entry = await logs.append(namespace, uid, build)
        taken = entry.taken if entry is not None else []
        left = until - clock()
        if taken or asked.want == 0 or state.is_over or left <= 0:
            break
        await logs.wait_for_more(namespace, uid, state.places, min(left, LOOK_SECONDS))
    arguments = await logs.arguments(namespace, uid, taken)
    calls = [TakenCall(call=call, arguments=_encoded(each)) for call, each in zip(taken, arguments, strict=True)]
    return CallWork(calls=calls, over=state.is_over)


def _is_alive(api: Api, run: RunObject, worker: Worker) -> bool:
    """Whether the member of a worker still runs in the worker's attempt."""
    current = api.mirror.runs.get((run.metadata.namespace, run.metadata.name))
    pod = newest_pods(api.mirror.pods_of_run(current)).get(worker.rank) if current is not None else None
    member = pod.member if pod is not None else None
    return member is not None and member.attempt == worker.attempt and pod is not None and not pod.is_finished


async def _for_client(api: Api, user: User, namespace: str, name: str) -> tuple[CallLogs, RunObject]:
    await user.require("create", namespace)
    return _logs(api), await find_run(api, user, namespace, name)


def _logs(api: Api) -> CallLogs:
    if api.stores.logs is None:
        raise Unsupported("this server has no blob store, which keeps calls", hint="start it with --blobs")
    return api.stores.logs.results.calls


def _has_token(request: Request, state: CallQueue) -> bool:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    digest = hashlib.sha256(text.strip().encode()).hexdigest()
    return scheme.lower() == "bearer" and bool(state.token) and hmac.compare_digest(digest, state.token)


def _outcomes_of(entry: Entry) -> list[tuple[Outcome, bytes]]:
    return list(zip(entry.outcomes, entry.payloads, strict=True)) if entry.outcomes else []


def _view(outcome: Outcome, payload: bytes) -> CallOutcome:
    return CallOutcome(call=outcome.call, kind=outcome.kind, part=outcome.part, value=_encoded(payload))


def _require_small(api: Api, payloads: list[bytes], what: str) -> None:
    limit = api.cluster.policy.code.value_bytes
    largest = max(map(len, payloads), default=0)
    if largest > limit:
        message = f"{what} of a call: {largest:,} bytes, and policy allows {limit:,} (code.value)"
        raise TooLarge(message, hint="put large data on a volume and pass its path")


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput.one(field, "is not base64") from None


def _encoded(payload: bytes) -> str:
    return base64.b64encode(payload).decode()
