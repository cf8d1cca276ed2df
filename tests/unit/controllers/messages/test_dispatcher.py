"""The dispatcher: what it does if channels are not known, messages are switched off, or the API server fails."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec import Raw

from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.controllers.messages import delivery, failure_output
from kajitori.controllers.messages.dispatcher import MessageDispatcher
from kajitori.controllers.messages.stored_outbox import StoredOutbox
from kajitori.controllers.workqueue import Key
from kajitori.core.messages import outbox as post
from kajitori.core.messages.channels import Channel, team
from kajitori.core.messages.outbox import Message, Outbox
from kajitori.core.naming import names
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.notices import Notice, Notices
from kajitori.errors import Conflict, Unavailable
from kajitori.kube.metadata import ObjectMeta
from kajitori.messages.sender import Delivery, Receipt
from kajitori.monitoring.controller import ControllerMetrics

VISION = team("vision")
MESSAGE = Message(
    id="m1", kind="failed", at="", namespace="vision", run="bert", title="failed", body="boom", channels=("slack",)
)


class Kubernetes:
    """Keeps Secrets; the next writes fail as often as a test says."""

    def __init__(self) -> None:
        self.failures = 0
        self.secrets: dict[str, dict[str, Any]] = {}
        self._version = 0

    async def list(self, resource: object, namespace: str, **selectors: str) -> Any:
        return SimpleNamespace(items=list(self.secrets.values()))

    async def create(self, resource: object, body: dict[str, Any], namespace: str) -> dict[str, Any]:
        return await self.replace(resource, body)

    async def replace(self, resource: object, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the API server is away")
        self._version += 1
        known = self.secrets.get(body["metadata"]["name"])
        if known is not None and body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            raise Conflict("it has changed")
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        self.secrets[body["metadata"]["name"]] = body
        return body

    def outbox(self) -> Outbox:
        """Return what is stored for the team."""
        return msgspec.json.decode(base64.b64decode(self.secrets[VISION.outbox]["data"]["state"]), type=Outbox)


class SendingProcess:
    """Takes every delivery, and remembers what was stored at that moment."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self.taken: list[tuple[str, bool]] = []

    async def send(self, delivery: Delivery) -> Receipt:
        request = self._kubernetes.outbox().state("slack").request
        self.taken.append((delivery.id, request is not None and request.id == delivery.id))
        return Receipt(number=0)


class Scene:
    """A dispatcher with one message in its team's outbox."""

    def __init__(self) -> None:
        self.kubernetes = Kubernetes()
        self.sending_process = SendingProcess(self.kubernetes)
        self.mirror = SimpleNamespace(runs={})
        self.woken: list[Key] = []
        self.rules = Notifications()
        view = SimpleNamespace(policy=SimpleNamespace(notifications=self.rules))
        self.messages = MessageDispatcher(
            cast(Any, self.kubernetes),
            cast(Any, self.mirror),
            cast(Any, view),
            "kajitori-messages",
            cast(Any, self.sending_process),
            kept_logs=None,
            wake=self.woken.append,
            metrics=ControllerMetrics.unread(),
        )
        self.view = view
        self.messages.followed_channels.is_known = True
        self.messages.followed_channels._channels = {VISION: {"slack": Channel(url="slack://x")}}

    async def deliver(self) -> None:
        """Store the message and run until it is delivered, or for a moment."""
        stored = self.messages.delivery.outbox_of(VISION)
        await stored.store(post.added(Outbox(), [MESSAGE]))
        self.messages.delivery.start(stored)
        await asyncio.wait([self.messages.delivery.tasks[VISION]], timeout=0.2)

    async def end(self) -> None:
        task = self.messages.delivery.tasks[VISION]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_request_is_stored_before_it_is_sent() -> None:
    scene = Scene()
    await scene.deliver()
    assert scene.sending_process.taken == [("m1", True)] and scene.kubernetes.outbox().is_empty


@pytest.mark.parametrize("why", ["channels are not known", "messages are switched off"])
async def test_nothing_is_dropped_or_sent_meanwhile(why: str) -> None:
    """A controller that may not read the channels yet must not take them for removed."""
    scene = Scene()
    if why == "channels are not known":
        scene.messages.followed_channels.is_known = False
        scene.messages.followed_channels._channels = {}
    else:
        scene.view.policy.notifications = Notifications(enabled=False)
    await scene.deliver()
    assert scene.sending_process.taken == [] and len(scene.kubernetes.outbox().messages) == 1
    await scene.end()


async def test_a_delivery_is_recorded_although_the_api_server_fails_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else is sent meanwhile, so nothing is sent twice."""
    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.001)
    scene = Scene()
    stored = scene.messages.delivery.outbox_of(VISION)
    await stored.store(post.added(Outbox(), [MESSAGE]))
    channels = scene.messages.followed_channels.channels(VISION)
    (request,) = await scene.messages.delivery.store_due_requests(stored, channels)
    scene.kubernetes.failures = 3
    await scene.messages.delivery.send_requests(stored, [request], channels)
    assert len(scene.sending_process.taken) == 1 and scene.kubernetes.outbox().is_empty


async def test_notices_wait_while_their_outbox_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_output, "MOST_OUTPUTS", 0)  # else the output of the failed member is read
    scene = Scene()
    notice = Notice(id="failed.1", kind="failed", at="2026-11-23T12:00:00Z", text="boom")
    status = RunStatus(phase=Phase.FAILED, notices=Notices(waiting=(notice,)))
    run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=Raw(b"{}"), status=status)
    scene.mirror.runs["vision", "bert"] = run
    scene.messages._note(RUNS, "vision", "bert")
    scene.kubernetes.failures = 1
    with pytest.raises(Unavailable):
        await scene.messages._take_notices()
    assert not scene.messages.has_all(run, status), "the run must not go away yet"
    await scene.messages._take_notices()
    assert scene.messages.has_all(run, status) and scene.woken == [("vision", "bert")]
    assert [message.id for message in scene.kubernetes.outbox().messages] == ["u1.failed.1"]
    await scene.end()


async def test_an_outbox_that_another_client_changed_is_read_again() -> None:
    """The write fails, and the next one begins from what is stored."""
    scene = Scene()
    stored = scene.messages.delivery.outbox_of(VISION)
    await stored.store(post.added(Outbox(), [MESSAGE]))
    other = StoredOutbox(cast(Any, scene.kubernetes), "kajitori-messages", VISION)
    other.load(scene.kubernetes.secrets[VISION.outbox])
    edited = post.added(other.outbox, [msgspec.structs.replace(MESSAGE, id="m2")])
    await other.store(edited)
    with pytest.raises(Conflict):
        await stored.store(post.begun(stored.outbox, "slack", 100.0)[0])
    assert stored.outbox == edited
    await stored.store(post.begun(stored.outbox, "slack", 100.0)[0])


async def test_the_next_leader_goes_on_with_what_is_stored() -> None:
    scene = Scene()
    stored = scene.messages.delivery.outbox_of(VISION)
    await stored.store(post.begun(post.added(Outbox(), [MESSAGE]), "slack", 1.0)[0])
    following = Scene()
    following.kubernetes.secrets = scene.kubernetes.secrets
    assert following.kubernetes.secrets[VISION.outbox]["metadata"]["annotations"] == {
        names.ANNOTATION_RECIPIENT: "team/vision"
    }
    await following.messages._load_outboxes()
    await asyncio.wait([following.messages.delivery.tasks[VISION]], timeout=0.2)
    assert following.sending_process.taken == [("m1", True)] and following.kubernetes.outbox().is_empty
