"""Submit a run: check it, apply the policy, and create it with the submitter's credentials; or show a dry run."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.audit import note_subject
from kajitori.api.auth import Caller, submitted_by
from kajitori.api.channels import channel_names
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import no_such_run, run_object
from kajitori.api.queue import waiting
from kajitori.api.rendering.runs import run_view
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.rights import User
from kajitori.api.runs.submit.after import with_found_runs
from kajitori.api.views.queue import DryRun
from kajitori.api.views.runs import RunView
from kajitori.blobs.code import CodeStore, no_such_code
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide, objections
from kajitori.core.documents.faults import Document, read
from kajitori.core.documents.fields import DnsLabel, LabelKey, LabelValue
from kajitori.core.messages.channels import recipients_of
from kajitori.core.naming import names
from kajitori.core.naming.run_names import make_name
from kajitori.core.pods import manifests, networks
from kajitori.core.pods.ports import choose_port
from kajitori.core.spec.reading.draft import Draft, read_draft
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.run import RunSpec, name_fault, to_document
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.errors import AlreadyExists, Fault, InvalidInput, KajitoriError, NotFound, Refused, StorageFull
from kajitori.kube.client import METADATA_ONLY
from kajitori.kube.errors import ConnectionFailed, NotServedError, ServerError
from kajitori.kube.resources import SECRETS

router = APIRouter(tags=["runs"])

NAME_TRIES = 5

MAX_ANNOTATION = 32_768
"""Greatest number of characters of an annotation."""


class RunRequest(Document):
    """A request for a run."""

    name: str | None = Field(default=None, max_length=253)
    """Default: made from the image's name."""
    namespace: DnsLabel | None = None
    """Default: the server's own."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the run."""
    annotations: dict[LabelKey, Annotated[str, Field(max_length=MAX_ANNOTATION)]] = Field(
        default_factory=dict, max_length=16
    )
    """Notes that another program keeps with the run. Kajitori returns them, and does not read them."""
    spec: Any = None
    """A RunSpec."""


class SubmitParameters(Parameters):
    dry_run: bool = False
    """Show what would be created, what policy changes and when the run could start. Nothing is created."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A request for a run, as far as it could be read."""

    name: str
    """Empty: the server makes a name."""
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    draft: Draft
    faults: tuple[Fault, ...] = ()
    """Everything that is wrong with the request itself, including the spec's faults."""

    @property
    def spec(self) -> RunSpec:
        """The spec of a request without faults."""
        assert self.draft.spec is not None
        return self.draft.spec


@router.post(
    "/v1/runs",
    status_code=201,
    responses={**describes(DryRun), **describes(RunView, status=201)},
    openapi_extra=takes(RunRequest),
    summary="Submit a run",
)
async def submit(api: Shared, user: Caller, request: Request, query: Annotated[SubmitParameters, Query()]) -> Response:
    """201 with the run. If the request is invalid or the policy forbids it, the answer lists every reason, and nothing
    is created."""
    submission = await completed(api, user, read_submission(await json_body(request), api.namespace))
    note_subject(request.state, submission.namespace, submission.name, is_dry_run=bool(query.dry_run))
    decision = await decide_or_refuse(api, user, submission)
    if query.dry_run:
        return answer(await _dry_run(api, user, submission, decision))
    await _require_code(api, user, submission)
    made = await _create(api, user, submission)
    run = run_object(made)
    note_subject(request.state, run.metadata.namespace, run.metadata.name)
    api.changes.expect(run)
    return answer(run_view(msgspec.structs.replace(run, status=_fresh_status(submission.spec, decision))), 201)


def read_submission(document: Any, default_namespace: str) -> Submission:
    """Read a request's body as far as it is valid; its faults are in the result."""
    request, faults, _ = read(RunRequest, document, "")
    fields = document if isinstance(document, dict) else {}
    draft = Draft(None)
    if isinstance(document, dict) and fields.get("spec") is None:
        faults.append(Fault("spec", "is required", hint="it says what to run; at least spec.image"))
    elif isinstance(document, dict):
        draft = read_draft(fields["spec"])
        faults += draft.faults
    name = fields.get("name")
    if isinstance(name, str):
        bad_name = name_fault(name)
        faults = [fault for fault in faults if fault.field != "name"] + ([bad_name] if bad_name is not None else [])
        name = name if bad_name is None else ""
    for kind in ("labels", "annotations"):
        given = fields.get(kind)
        for key in given if isinstance(given, dict) else ():
            if key.rpartition("/")[0] == names.GROUP:
                hint = "use a domain of your own, or none"
                message = f"users may not set {kind} of {names.GROUP}"
                faults.append(Fault(f"{kind}[{key[:80]!r}]", message, key[:80], hint))
    return Submission(
        name=name if isinstance(name, str) else "",
        namespace=(request.namespace if request is not None else None) or default_namespace,
        labels=request.labels if request is not None else {},
        annotations=request.annotations if request is not None else {},
        draft=draft,
        faults=tuple(faults),
    )


async def completed(api: Api, user: User, submission: Submission) -> Submission:
    """Return the submission with the whole names of the runs in `after`, with the faults of these, and with the health
    check of its image unless the request has one or null."""
    draft, faults = await with_found_runs(api, user, submission.draft, submission.namespace, submission.name)
    spec, lookup = draft.spec, api.runs.health_of_image
    # A notebook's program is Kajitori's own: the check of its image asks for another address.
    if spec is None or lookup is None or spec.type == "notebook" or "health" in spec.model_fields_set:
        health = None
    else:
        health = await lookup(spec.image)
    if spec is not None and health is not None:
        draft = replace(draft, spec=spec.model_copy(update={"health": health}))
    return replace(submission, draft=draft, faults=(*submission.faults, *faults))


async def decide_or_refuse(api: Api, user: User, submission: Submission) -> Decision:
    """Return the policy's decision about a request. Raises InvalidInput or Refused with all faults of the request and
    its name, and all objections of policy and cluster."""
    refusals: list[Fault] = []
    try:
        if not submission.faults:
            return await _decide(api, user, submission, submission.name or "run")
        if submission.draft.spec is not None:
            refusals = objections(
                submission.draft,
                api.cluster.policy,
                await _facts(api, user, submission),
                run=RunIdentity(submission.name or "run", submission.namespace),
            )
    except Refused as error:
        raise Refused([*await _taken(api, user, submission), *error.faults]) from None
    raise InvalidInput([*submission.faults, *await _taken(api, user, submission), *refusals])


async def _taken(api: Api, user: User, submission: Submission) -> list[Fault]:
    """Return the fault if another run has the name and the user may create runs there; otherwise the user may not learn
    of that run."""
    name, namespace = submission.name, submission.namespace
    run = api.mirror.runs.get((namespace, name))
    if run is None or not await user.may("create", namespace):
        return []
    taken = _name_taken(name, namespace, deleting=bool(run.metadata.deletion_timestamp))
    return [Fault("name", taken.message, name, taken.hint, taken.code)]


async def _require_code(api: Api, user: User, submission: Submission) -> None:
    """Raise InvalidInput if the run's code or files are not in the store and the user may create runs there.

    Dry runs skip this check, since the command line uploads nothing for them.
    """
    spec, namespace = submission.spec, submission.namespace
    digests = {"spec.code.digest": spec.code.digest} if spec.code is not None else {}
    digests |= {"spec.files.digest": spec.files.digest} if spec.files is not None else {}
    if digests and api.stores.code is not None and await user.may("create", namespace):
        for field, digest in digests.items():
            await require_archive(api.stores.code, namespace, field, digest)


async def require_archive(store: CodeStore, namespace: str, field: str, digest: str) -> None:
    """Raise InvalidInput if an archive is not in the store."""
    if await store.find(namespace, digest) is None:
        error = no_such_code(namespace, digest)
        raise InvalidInput.one(field, error.message, value=digest, hint=error.hint)


def _name_taken(name: str, namespace: str, *, deleting: bool) -> AlreadyExists:
    """Return the error for a name that another run has. `deleting`: that run is being deleted; `kaji rm` waits until it
    is gone."""
    if deleting:
        message = f"the run {name!r} in namespace {namespace} is being deleted; some of its members have not ended yet"
        return AlreadyExists(message, hint=f"wait until it is gone: kaji rm {name}; or choose another name")
    message = f"there is a run {name!r} in namespace {namespace} already"
    return AlreadyExists(message, hint=f"choose another name, or delete that one: kaji rm {name}")


async def _decide(api: Api, user: User, submission: Submission, name: str) -> Decision:
    facts = await _facts(api, user, submission)
    return decide(submission.spec, api.cluster.policy, facts, run=RunIdentity(name, submission.namespace, user.name))


async def _facts(api: Api, user: User, submission: Submission) -> Facts:
    earlier = api.cluster.earlier(submission.draft.spec, submission.namespace, user.name)
    return Facts(
        table=api.cluster.possible_table(),
        secrets=await _secrets(user, submission),
        channels=await _channels(api, user, submission),
        earlier=earlier,
    )


async def _channels(api: Api, user: User, submission: Submission) -> frozenset[str] | None:
    """Return the names of the channels that the run may name: the submitter's and the team's. None if it names none, or
    if they can't be read."""
    notify = submission.spec.notify
    if notify is None or not notify.channels:
        return None
    try:
        return await channel_names(api, recipients_of(user.name, submission.namespace))
    except KajitoriError:
        return None


async def _secrets(user: User, submission: Submission) -> frozenset[str] | None:
    """Return the run's Secrets that exist; None if the submitter may not read them. Reads their metadata alone."""
    wanted = {use.name for use in submission.spec.secrets}
    if not wanted:
        return None
    existing = set()
    for name in sorted(wanted):
        path = SECRETS.path(submission.namespace, name)
        try:
            await user.client.request("GET", path, headers={"Accept": METADATA_ONLY})
        except NotFound:
            continue
        except KajitoriError:
            return None
        existing.add(name)
    return frozenset(existing)


async def _create(api: Api, user: User, submission: Submission, *, dry_run: bool = False) -> dict[str, Any]:
    """Create the Run with the submitter's credentials. Raises AlreadyExists if its name is taken, NotFound if the
    namespace does not exist."""
    tries = 1 if submission.name else NAME_TRIES
    for left in range(tries - 1, -1, -1):
        name = submission.name or make_name(submission.spec.image, secrets.token_hex(8))
        document = run_document(submission, name, user, api.now())
        try:
            return await user.client.create(RUNS, document, submission.namespace, dry_run=dry_run)
        except AlreadyExists as error:
            if left:
                continue
            deleting = error.message.startswith("object is being deleted")  # the mirror may not show it yet
            raise _name_taken(name, submission.namespace, deleting=deleting) from error
        except NotServedError as error:
            raise no_such_run(api, submission.namespace, name, error) from error
        except NotFound as error:
            if not error.message.startswith("namespaces "):
                raise
            hint = "name a namespace that you may use; the cluster's operators create new ones"
            raise NotFound(f"there is no namespace {submission.namespace!r}", hint=hint) from error
        except (ConnectionFailed, ServerError) as error:
            if not dry_run and not isinstance(error, StorageFull) and getattr(error, "maybe_applied", True):
                error.hint = f"the run may exist nevertheless; check before you try again: kaji describe {name}"
            raise
    raise AssertionError("unreachable")


def run_document(submission: Submission, name: str, user: User, now: datetime) -> dict[str, Any]:
    """Return the Run that is created for a submission."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": submission.namespace,
        "annotations": submission.annotations | submitted_by(user, now),
        "finalizers": [names.FINALIZER],  # saves the controller a first write that adds it
    }
    if submission.labels:
        metadata["labels"] = dict(submission.labels)
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": to_document(submission.spec),
    }


def _fresh_status(spec: RunSpec, decision: Decision) -> RunStatus:
    """Return the status that the controller will write first."""
    return RunStatus(
        reason=Reason.NOT_PLANNED_YET,
        members=MemberCounts(total=spec.members),
        findings=list(decision.findings),
    )


async def _dry_run(api: Api, user: User, submission: Submission, decision: Decision) -> DryRun:
    """Return the run that a submission would create. A dry run at the API server checks names, rights and quotas."""
    document = await _create(api, user, submission, dry_run=True)
    run = run_object(document)
    name = run.metadata.name
    if not submission.name:  # parts of the decision depend on the name that was made
        decision = await _decide(api, user, submission, name)
    run = msgspec.structs.replace(run, status=_fresh_status(submission.spec, decision))
    start, placement = await waiting.start_of_new(api, user, run, submission.spec, decision)
    return DryRun(
        run=run_view(run),
        manifests=_manifests(api, submission, decision, run, placement.nodes[0] if placement else ""),
        findings=list(decision.findings),
        start=start,
    )


def _manifests(api: Api, submission: Submission, decision: Decision, run: RunObject, node: str) -> list[dict[str, Any]]:
    spec, name, namespace, uid = submission.spec, run.metadata.name, submission.namespace, run.metadata.uid
    ports = api.cluster.policy.rendezvous
    pods = manifests.MemberPods(
        decision.template,
        run_name=name,
        namespace=namespace,
        run_uid=uid,
        attempt=1,
        world_size=spec.replicas,  # 1 for a sweep
        port=choose_port(uid, 1, (), ports.first_port, ports.last_port),
        launcher=manifests.launcher_of(spec),
        bind_direct=decision.bind_direct,
    )
    pod = pods.pod(spec.sweep.indices[0] if spec.sweep is not None else 0, node)
    if not node:  # the Pod is not placed yet
        pod["spec"].pop("affinity", None)
        pod["spec"].pop("nodeName", None)
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": dict(run.metadata.annotations),
            **({"labels": dict(run.metadata.labels)} if run.metadata.labels else {}),
        },
        "spec": to_document(spec),
    }
    of_run = {"run_name": name, "namespace": namespace, "run_uid": uid}
    shared = [manifests.headless_service(**of_run, ports=spec.ports)] if networks.has_own_service(spec) else []
    shared += [networks.network_service(use.name, **of_run) for use in spec.networks]
    if decision.network is not None:
        shared.append(manifests.network_policy(**of_run, rules=decision.network))
    return [document, pod, *shared, *([decision.claim] if decision.claim is not None else [])]
