"""The state of a bridge. None of it has to survive: containers are runs, and their notes are stored with the runs."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from websockets.exceptions import ConnectionClosed

from kajitori.client.members.streams import CommandStream
from kajitori.core.spec.reasons import WAITING, Phase
from kajitori.docker.events import EventLog
from kajitori.docker.execution import Commands
from kajitori.docker.files_before_start import FilesBeforeStart
from kajitori.docker.output import phase_words
from kajitori.docker.platform import Platform
from kajitori.docker.ports import PublishedPorts
from kajitori.docker.translation.bodies import Body, check_shape
from kajitori.docker.translation.container import BUILT_IN_NETWORKS, Container
from kajitori.docker.translation.creation import renamed
from kajitori.docker.translation.request import Creation
from kajitori.errors import AlreadyExists, Forbidden, InvalidInput, KajitoriError, NotFound, Unavailable, WrongState

SETTLED_SECONDS = 5.0
"""Longest time for which the answer to a start is delayed."""
REMOVED_SECONDS = 0.5
"""Interval at which a container is looked at while a client waits for its removal."""
EXITED_SECONDS = 1.0
"""Interval at which a member is looked at that is started again in its Pod, while a client waits for its end."""
REMEMBERED = 1000
"""Starts that are remembered."""
DRAIN_SECONDS = 10.0
"""Time that clients have to read the rest of a log before a container with --rm is removed."""


@dataclass
class Terminal:
    """The size of a container's terminal, and the connection that gets changes of it."""

    size: tuple[int, int] | None = None
    """Columns and lines."""
    stream: CommandStream | None = None

    async def resize(self, columns: int, lines: int) -> None:
        """Set the size, and tell the connection if there is one."""
        self.size = columns, lines
        if self.stream is not None:
            with suppress(ConnectionClosed):
                await self.stream.resize(columns, lines)


class Engine:
    """The state of the bridge, shared by all routes."""

    def __init__(self, platform: Platform, now: Callable[[], float] = time.time) -> None:
        self.platform = platform
        self.now = now
        self.events = EventLog()
        self.commands = Commands()
        self.ports = PublishedPorts(platform)
        self.files_before_start = FilesBeforeStart(platform)
        self.checked_images: dict[str, None] = {}
        """Names of images that clients pulled, which means that policy allows them."""
        self.networks: dict[str, dict[str, Any]] = {}
        """Networks that clients made, by name. The cluster knows a network only while a run is in it."""
        self.built_in_networks: dict[str, dict[str, list[str]]] = {}
        """By UID: the built-in networks of containers that were connected with one or disconnected from one later.
        They give no names, so they exist for clients alone."""
        self.terminals: dict[str, Terminal] = {}
        """Terminals of containers that clients are attached to, by UID."""
        self._awaited_starts: dict[str, asyncio.Future[Container]] = {}
        """By UID: the container once it is started through this bridge."""
        self._as_started_here: dict[str, Container] = {}
        """By UID: containers as the answers to their latest starts showed them."""
        self._unanswered_starts: dict[str, asyncio.Event] = {}
        """Starts that are not answered yet, by UID; set once they are."""
        self._reported: set[str] = set()
        """UIDs of containers for which the answer to `start` already gave the reason that the program could not run."""
        self._readers: Counter[str] = Counter()
        self._drained: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._followers: dict[str, asyncio.Task[None]] = {}

    def tell(self, action: str, container: Container, **more: str) -> None:
        """Add an event of a container."""
        self.events.add(action, container.id, _attributes(container) | more)

    async def create(self, creation: Creation) -> Container:
        """Create a container, which is a stopped run."""
        container = await self.platform.create(creation.body(self.platform.namespace))
        self.events.foretell("create", container.id, _attributes(container))
        return container

    async def rename(self, container: Container, name: str) -> None:
        """Give a container that was never started another name: its run is made again under that name."""
        creation = renamed(container, name)
        taken = [one for one in await self.platform.containers() if one.name == name]
        if taken:
            raise AlreadyExists(f'Conflict. The container name "/{name}" is already in use by container {taken[0].id}')
        self.events.replaced.add(container.uid)
        self.events.expect("create", container.id)
        try:
            container_with_new_name = await self.platform.create(creation.body(self.platform.namespace))
        except KajitoriError:
            self.events.replaced.discard(container.uid)
            raise
        if container.uid in self.built_in_networks:
            self.built_in_networks[container_with_new_name.uid] = self.built_in_networks.pop(container.uid)
        await self.platform.delete(container, at_once=True)
        self.tell("rename", container_with_new_name, oldName=container.name)

    async def images_on_nodes(self) -> list[dict[str, Any]]:
        """Return the images that nodes have; none if the user may not list them, or the server is too old to."""
        try:
            images: list[dict[str, Any]] = (await self.platform.get("/v1/images"))["items"]
        except (Forbidden, NotFound):
            return []
        return images

    def networks_of(self, container: Container) -> dict[str, list[str]]:
        """Return the container's aliases by the network's name."""
        networks = container.networks
        if (changed := self.built_in_networks.get(container.uid)) is not None:
            networks = changed | {name: aliases for name, aliases in networks.items() if name not in BUILT_IN_NETWORKS}
        return networks

    async def start(self, container: Container) -> None:
        """Start a container, open its published ports here, and remove it at its end if it was made with --rm.

        Raises InvalidInput if its program can't be started.
        """
        await self._answering(container, self._start(container))

    async def restart(self, container: Container, grace: str | None) -> None:
        """Stop a container that has not ended, and start it again. The cluster does both, also if this bridge ends
        meanwhile.

        Raises InvalidInput if its program can't be started, WrongState if it is stopped for good meanwhile, and
        NotFound if it is removed.
        """
        container = await self._queued_again(await self.platform.restart(container, grace), container)
        await self._answering(container, self._started(container))
        self.tell("restart", container)

    async def _queued_again(self, asked: Container, before: Container) -> Container:
        """Wait until a run that was asked to restart has ended and is queued again, and return it then."""
        is_told, latest, number = not before.started_at, asked, before.number_of_start
        async with aclosing(self.platform.changes(asked)) as changes:
            async for latest in changes:
                if latest.has_ended_start(number) and not is_told:
                    is_told = True
                    self._tell_end(latest, latest.exit_code_of_start(number))
                    self.tell("stop", latest)
                if latest.seen_resumes >= asked.resumes:
                    return latest
        await self.platform.refreshed(latest)  # raises NotFound if it was removed
        hint = f"to start it: docker start {asked.name}"
        raise WrongState(f"container {asked.name} was stopped while it was restarted", hint=hint)

    async def _answering(self, container: Container, starting: Coroutine[Any, Any, None]) -> None:
        """Start a container, and note until the end that its client has no answer yet."""
        answered = self._unanswered_starts[container.uid] = asyncio.Event()
        try:
            await starting
        finally:
            if self._unanswered_starts.get(container.uid) is answered:  # else another client starts it, too
                del self._unanswered_starts[container.uid]
            answered.set()

    async def _start(self, container: Container) -> None:
        """Start a container as `start` does, which answers the client."""
        try:
            await self.ports.open(container)
        except KajitoriError:
            if container.is_removed_at_end:  # the client of `docker run --rm` waits until it is gone
                with suppress(KajitoriError):
                    await self.platform.delete(container, at_once=True)
            raise
        try:
            container = await self.platform.start(container)
        except BaseException:
            self.ports.close(container)
            raise
        self.events.forget("die", container.id)
        await self._started(container)

    async def _started(self, container: Container) -> None:
        """Tell of a container that is queued for a start, and return once it has settled."""
        self._reported.discard(container.uid)
        self.events.foretell("start", container.id, _attributes(container))
        self._as_started_here[container.uid] = container
        while len(self._as_started_here) > REMEMBERED:
            del self._as_started_here[next(iter(self._as_started_here))]
        if (waiting := self._awaited_starts.pop(container.uid, None)) is not None:
            waiting.set_result(container)
        self._follow_to_its_end(container)
        container = await self.settled(container)
        await self._settle_ports(container)
        if container.could_not_start:
            self._reported.add(container.uid)
            raise InvalidInput.one("", f"failed to start {container.name}: {_as_in_go(container.message)}")

    async def _settle_ports(self, container: Container) -> None:
        try:
            await self.ports.settle(container)
        except Unavailable as error:
            log.warning("%s: %s", container.name, error)

    async def unreported_end(self, container: Container) -> str:
        """Return the line that says why the platform ended a container; empty if the program or a user ended it, or if
        the answer to its start has already said so."""
        if (answered := self._unanswered_starts.get(container.uid)) is not None:
            await answered.wait()
        try:
            container = await self.platform.refreshed(container)
        except KajitoriError:
            return ""  # it is gone
        return phase_words(container) if container.was_ended_by_others and container.uid not in self._reported else ""

    async def settled(self, container: Container) -> Container:
        """Return the container once it runs, has ended, or waits for nodes, or after a few seconds.

        Clients use a container as soon as its start is answered.
        """
        latest = container
        try:
            async with asyncio.timeout(SETTLED_SECONDS), aclosing(self.platform.changes(container)) as changes:
                async for latest in changes:
                    waits_for_nodes = latest.status.get("reason") in {reason.value for reason in WAITING}
                    if latest.phase not in (Phase.QUEUED, Phase.STARTING) or (
                        waits_for_nodes and not latest.is_starting_again
                    ):
                        break
        except (TimeoutError, KajitoriError):
            pass
        return latest

    async def adopt(self) -> None:
        """Go on with the containers of an earlier bridge: open their ports, and remove those with --rm at their end."""
        for container in await self.platform.containers(active=True):
            try:
                await self.ports.open(container)
            except KajitoriError as error:
                log.warning("%s: %s", container.name, error)
            self._follow_to_its_end(container)

    def _follow_to_its_end(self, container: Container) -> None:
        """Close the container's ports and remove it at its end, if it has ports or `--rm`."""
        has_ports = self.ports.of(container) is not None
        if (container.is_removed_at_end or has_ports) and container.uid not in self._followers:
            follower = asyncio.create_task(self._until_end(container))
            self._followers[container.uid] = follower
            follower.add_done_callback(lambda _: self._followers.pop(container.uid, None))

    async def begun(self, container: Container) -> Container:
        """Wait until a container that does not run is started through this bridge, and return it then."""
        if container.uid not in self._awaited_starts:
            self._awaited_starts[container.uid] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._awaited_starts[container.uid])  # several clients may wait

    async def ended(self, container: Container) -> Container:
        """Wait until a container that was started has ended, also if a user restarts it, and return it then."""
        number = container.number_of_start
        async with aclosing(self.platform.changes(container)) as changes:
            async for latest in changes:
                container = latest
                if latest.has_ended_start(number):
                    break
        return container

    async def exited(self, container: Container, condition: str) -> int:
        """Wait until the program of a started container has ended, and return its exit code. As with Docker it may be
        started again then.

        An attached client (`docker run`, `docker start -a`) waits for the `next-exit` and sees the output of all
        restarts, so that its exit code is that of the last one.
        """
        if condition == "next-exit" and self._readers[container.uid] and not container.is_service:
            return (await self.ended(container)).exit_code_of_start(container.number_of_start)
        if not container.is_service:
            return await self._exited(container)
        waits = [asyncio.create_task(self._exited(container)), asyncio.create_task(self._exited_in_place(container))]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _exited(self, container: Container) -> int:
        """Wait until the run has ended, or restarts all of its members."""
        restarts, number = container.restarts, container.number_of_start
        async with aclosing(self.platform.changes(container)) as changes:
            async for latest in changes:
                container = latest
                if latest.has_ended_start(number):
                    break
                if latest.restarts > restarts:
                    return latest.last_exit_code or 1
        return container.exit_code_of_start(number)

    async def _exited_in_place(self, container: Container) -> int:
        """Wait until the program of a service's member has ended, which restarts it in its Pod. The run itself may not
        change by that, so the member is looked at again and again."""
        restarts_before: int | None = None
        while True:
            members = await self.platform.members(container)
            for member in members:
                if member["rank"] != container.rank:
                    continue
                if restarts_before is not None and (
                    member["restarts"] > restarts_before or member["phase"] != "Running"
                ):
                    if (code := member.get("lastExitCode")) is not None:
                        return int(code)
                elif member["phase"] == "Running":
                    restarts_before = int(member["restarts"])
            await asyncio.sleep(EXITED_SECONDS)

    async def stopped(self, container: Container) -> Container:
        """Wait until a container that was told to stop has ended."""
        container = await self.ended(container)
        self._tell_end(container, container.exit_code)
        return container

    def _tell_end(self, container: Container, exit_code: int) -> None:
        """Add the event of a container's end that was asked for here."""
        self.events.foretell("die", container.id, _attributes(container) | {"exitCode": str(exit_code)})

    async def removed(self, container: Container, begun: asyncio.Future[Container] | None) -> Container:
        """Wait until a container is removed, and return it as it was before. `begun` is its next start, if it does not
        run."""
        while True:
            if container.is_active:
                container = await self.ended(container)
                if (follower := self._followers.get(container.uid)) is not None:  # which removes it, if it has --rm
                    await asyncio.shield(follower)
            elif begun is None:
                await asyncio.sleep(REMOVED_SECONDS)
            else:
                await asyncio.wait({begun}, timeout=REMOVED_SECONDS)
                if begun.done():
                    container, begun = begun.result(), None
                    continue
            try:
                container = await self.platform.refreshed(container)
            except NotFound:
                return container

    async def as_started(self, container: Container) -> Container:
        """Return a container as its start through this bridge left it or later, if the server did not know that yet."""
        started = self._as_started_here.get(container.uid)
        return await self.platform.refreshed(started) if started and started.resumes > container.resumes else container

    @contextmanager
    def reading(self, container: Container) -> Iterator[None]:
        """Keep a container with --rm while a client reads what it prints."""
        self._readers[container.uid] += 1
        try:
            yield
        finally:
            self._readers[container.uid] -= 1
            if not self._readers[container.uid]:
                del self._readers[container.uid]
                self._drained.pop(container.uid, asyncio.Event()).set()

    async def read_to_its_end(self, container: Container, seconds: float) -> None:
        """Wait until clients have read what an ended container printed, at most for some time."""
        if self._readers[container.uid]:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._drained[container.uid].wait()

    async def close(self) -> None:
        """End what runs in the background. The cluster removes containers with --rm that are left."""
        followers = list(self._followers.values())
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        self.ports.close_all()

    async def _until_end(self, container: Container) -> None:
        """Wait for a container's end, then close its ports, and remove it if it was made with --rm."""
        try:
            async for seen in self.platform.changes(await self.platform.refreshed(container)):
                container = seen
                await self._settle_ports(seen)
            self.ports.close(container)
            if not container.is_removed_at_end:
                return
            await self.read_to_its_end(container, DRAIN_SECONDS)
            await self.platform.delete(container, at_once=True)
        except (NotFound, KajitoriError):
            return  # it is deleted already, or the cluster removes it later


def _as_in_go(message: str) -> str:
    """Return a message with the system's errors as Go writes them: Docker's client finds its exit code, 126 or 127, by
    these words."""
    for words in ("No such file or directory", "Permission denied", "Is a directory"):
        message = message.replace(words, words[0].lower() + words[1:])
    return message


def _attributes(container: Container) -> dict[str, str]:
    """Return the attributes of a container in events."""
    return container.labels | {"name": container.name, "image": str(container.spec.get("image", ""))}


log = logging.getLogger(__name__)

ENGINE = web.AppKey("engine", Engine)
"""The bridge's state in its application."""


def json_answer(document: object, status: int = 200) -> web.Response:
    """Return a document. Docker's client recognises JSON by its media type without any parameter."""
    return web.Response(body=json.dumps(document).encode(), status=status, content_type="application/json")


def sentence(error: KajitoriError) -> str:
    """Return an error as Docker's clients print it: one sentence with the way out."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


async def json_object(request: web.Request, shape: type[Body]) -> dict[str, Any]:
    """Return the body of a request. Raises InvalidInput if it is no object in JSON, or not of this shape."""
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidInput.one("", "the body must be an object in JSON")
    check_shape(body, shape)
    return body


def engine_of(request: web.Request) -> Engine:
    """Return the bridge's state."""
    return request.app[ENGINE]
