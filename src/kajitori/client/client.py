"""The synchronous client: `kajitori.Client` and the runs that it returns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote

from kajitori.client.lookup import find_run
from kajitori.client.models import (
    CommandOutput,
    Event,
    Explanation,
    Member,
    NodeSeries,
    Outlook,
    Result,
    RunProperties,
    RunState,
    Series,
    SignalledProgram,
    to_model,
)
from kajitori.client.phases import PhaseReporter
from kajitori.client.streams import LogReader, Outage, Patience, events, watch
from kajitori.client.submit.keywords import RunOptions
from kajitori.client.target import Target, target_of
from kajitori.client.web_api import Api, Params, run_path
from kajitori.core.backoff import Backoff
from kajitori.errors import InvalidInput, NotFound, WrongState

if TYPE_CHECKING:
    from kajitori.client.connection import Transport
    from kajitori.client.submit.request import RunRequest
    from kajitori.codepack.packing import Pack

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
"""Pauses between two questions whether a run has ended, if the caller set a timeout."""


def pauses_of_waiting() -> Backoff:
    """Return the pauses of one wait for the end of a run."""
    return Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, growth=1.5)


class Run(RunProperties):
    """A run. `state` is the server's last answer about it; `refresh` and `wait` renew it."""

    def __init__(self, client: Client, state: RunState) -> None:
        self._client = client
        self.state = state

    def refresh(self) -> Self:
        """Ask for the present state. Raises NotFound for a removed run."""
        self.state = self._client.state_of(self)
        return self

    def wait(self, timeout: float | None = None, *, progress: bool | Callable[[str], None] = False) -> Self:
        """Wait until the run has ended; arguments and errors as for `Client.wait`."""
        self.state = self._client.wait(self, timeout, progress=progress).state
        return self

    def logs(
        self, *, follow: bool = False, rank: int | None = None, tail: int | None = None, since: str = ""
    ) -> Iterator[str]:
        """Yield the lines of a member's log; arguments as for `Client.logs`."""
        return self._client.logs(self, follow=follow, rank=rank, tail=tail, since=since)

    def members(self) -> Sequence[Member]:
        """Return the run's members by rank."""
        return self._client.members(self)

    def metrics(self, *names: str, since: str = "1h") -> Sequence[Series]:
        """Return the resources that the run used, and its training figures."""
        return self._client.metrics(self, *names, since=since)

    def results(self, *, states: Sequence[str] = (), best: bool = False, by: str = "") -> Sequence[Result]:
        """Return the results of a sweep's members."""
        return self._client.results(self, states=states, best=best, by=by)

    def events(self, *, follow: bool = False) -> Iterator[Event]:
        """Yield what happened to the run."""
        return self._client.events(self, follow=follow)

    def explain(self) -> Explanation:
        """Return why the run is in its phase."""
        return self._client.explain(self)

    def exec(self, command: str | Sequence[str], *, rank: int = 0) -> CommandOutput:
        """Run a command in a member and return what it printed."""
        return self._client.exec(self, command, rank=rank)

    def stop(self, grace: str | None = None) -> Self:
        """Ask the run to stop; its checkpoint is kept."""
        self.state = self._client.stop(self, grace).state
        return self

    def kill(self) -> Self:
        """End the run at once; its checkpoint is kept."""
        self.state = self._client.kill(self).state
        return self

    def signal(self, signal: str | int, *, ranks: Iterable[int] = ()) -> Sequence[SignalledProgram]:
        """Send the programs of all members, or of `ranks`, a signal such as `"USR1"`; the run goes on."""
        return self._client.signal(self, signal, ranks=ranks)

    def resume(self) -> Self:
        """Start the ended run again, from its checkpoint."""
        self.state = self._client.resume(self).state
        return self

    def update(self, **changes: str | int) -> Self:
        """Change the run without starting it again; arguments as for `Client.update`."""
        self.state = self._client.update(self, **changes).state
        return self

    def remove(self, *, force: bool = False, checkpoint: bool = False) -> None:
        """Delete the run; arguments as for `Client.remove`."""
        self._client.remove(self, force=force, checkpoint=checkpoint)


class Client:
    """A client of the Web API, with the sign-in, contexts, TLS settings and retries of `kaji`.

    It may be used from several threads, and closes its connections at the end of a `with` block. Errors are those of
    `kajitori.errors`.
    """

    def __init__(
        self,
        server: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
        *,
        token: str | None = None,
        transport: Transport | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Choose the server as `kaji` does: `context` is a name of `kaji context ls` or the folder of a `kaji up`;
        `server` is an address, with `token`, $KAJI_TOKEN, or the sign-in of `kaji login`. Without both, the environment
        and the chosen context count.

        `namespace` is that of runs for which none is named. `transport` replaces the network in tests. Raises
        Unavailable, InvalidInput or Unauthenticated if there is no server to use.
        """
        variables = os.environ if environment is None else environment
        target = target_of(server, context, token, variables)
        self._api = Api(target, transport=transport)
        self.namespace = namespace or target.namespace
        """Namespace of runs for which none is named; empty lets the server decide."""
        self._has_role = False

    def __repr__(self) -> str:
        return f"<Client {self._api.target.url}, namespace {self.namespace or 'of the server'}>"

    @classmethod
    def of(cls, api: Api, namespace: str = "") -> Self:
        """Return a client on an existing connection."""
        client = cls.__new__(cls)
        client._api = api
        client.namespace = namespace or api.target.namespace
        client._has_role = False
        return client

    @property
    def api(self) -> Api:
        """The connection, for calls of the Web API that have no method here: `client.api.get("/v1/gpus")`."""
        return self._api

    @property
    def target(self) -> Target:
        """The server, and the caller's token there."""
        return self._api.target

    def close(self) -> None:
        """Close the connections."""
        self._api.__exit__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, image: str | None = None, command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> Run:
        """Start a run and return it without waiting for it. The options are those of `kaji run`.

        A command that is a text is split at spaces outside of quotes; no shell runs it. Raises InvalidInput and Refused
        with all faults at once, in which case nothing was made; TypeError for an unknown option.
        """
        return Run(self, self.submit(image, command, options))

    def submit(self, image: str | None, command: str | Sequence[str], options: RunOptions) -> RunState:
        """Start a run and return its state; arguments and errors as for `run`."""
        from kajitori.client.submit import sending
        from kajitori.client.submit.keywords import in_keywords

        try:
            request, pack = self._run_request(image, command, options)
            if request.faults:
                raise sending.all_faults(self._api, request)
            if pack is not None:
                check = partial(sending.submit, self._api, request, dry_run=True)
                self.upload(pack, request.namespace or "", check=check)
            return to_model(sending.submit(self._api, request), RunState)
        except InvalidInput as error:
            raise in_keywords(error) from None

    def what_if(
        self, image: str | None = None, command: str | Sequence[str] = (), **options: Unpack[RunOptions]
    ) -> Outlook:
        """Return what would become of a run with these options, and create nothing; arguments and errors as for `run`.

        With the name of a waiting run it is about that run's place in the queue.
        """
        from kajitori.client.submit import sending
        from kajitori.client.submit.keywords import in_keywords

        try:
            request, _ = self._run_request(image, command, options)
            if request.faults:
                raise sending.all_faults(self._api, request)
            document = sending.what_if(self._api, request)
        except InvalidInput as error:
            raise in_keywords(error) from None
        return to_model({**document, "document": document}, Outlook)

    def upload(self, pack: Pack, namespace: str = "", *, check: Callable[[], object] = lambda: None) -> None:
        """Upload packed code unless the server has it; the errors are those of `upload_code`."""
        from kajitori.client.submit.uploading import upload_code

        upload_code(self._api, pack, namespace or self.namespace, check=check, patience=Patience(self._api))

    def get(self, name: str) -> Run:
        """Return the run with this name, `namespace/name`, or unique beginning of a name. Raises NotFound, and
        InvalidInput with the candidates if there are several."""
        return Run(self, self._find_run(name))

    def list(
        self,
        *,
        active: bool = False,
        everybody: bool = False,
        phase: str | Sequence[str] = (),
        label: str | Sequence[str] = (),
        name: str = "",
        limit: int | None = None,
    ) -> Sequence[Run]:
        """Return runs of the client's namespace, or of all namespaces if it has none; the newest first.

        Without `everybody` only one's own; with `active` only those that have not ended. `label` is `key` or
        `key=value`, and `name` the beginning of names. Warns (UserWarning) if the list is empty because the caller has
        no role in any namespace.
        """
        params: dict[str, Any] = {"owner": None if everybody else "@me", "namespace": self.namespace or None}
        params |= {"active": active, "name": name or None}
        params |= {"phase": _as_words(phase), "label": _as_words(label)}
        items = self._api.all_items("/v1/runs", params, limit=limit)
        if not items and not self._has_role:
            from kajitori.client.roles import has_role

            self._has_role = has_role(self._api)
        return [Run(self, to_model(item, RunState)) for item in items]

    def state_of(self, run: Run | str) -> RunState:
        """Return the present state of a run. Raises NotFound for a removed one."""
        if isinstance(run, str):
            return self._find_run(run)
        state = to_model(self._api.get(run_path(_key(run.state))), RunState)
        if state.uid != run.uid:
            raise NotFound(f"{run.name} was deleted", hint="another run has its name now")
        return state

    def wait(
        self, run: Run | str, timeout: float | None = None, *, progress: bool | Callable[[str], None] = False
    ) -> Run:
        """Wait until a run has ended and return it. A server that is away for less than two minutes does not matter.

        `progress` prints a line of plain text at each change of the run's phase, or calls a function with it. Raises
        TimeoutError after `timeout` seconds, and NotFound if the run is deleted.
        """
        found = self._resolve_run(run)
        tell = PhaseReporter(progress)
        outage = Outage(tell.say, found.name, "the run itself goes on") if progress else None
        if timeout is None:
            for view in watch(self._api, _key(found.state), outage):
                found.state = to_model(view, RunState)
                tell.show(found.state)
            return found
        until, pauses = time.monotonic() + timeout, pauses_of_waiting()
        while True:
            found.state = self.state_of(found)
            tell.show(found.state)
            left = until - time.monotonic()
            if found.is_final:
                return found
            if left <= 0:
                raise TimeoutError(f"{found.name} is still {found.phase} after {timeout:g} s")
            self._api.sleep(min(pauses.next_seconds(), left))

    def logs(
        self,
        run: Run | str,
        *,
        follow: bool = False,
        rank: int | None = None,
        tail: int | None = None,
        since: str = "",
    ) -> Iterator[str]:
        """Yield the lines of a member's log without their ends: of rank 0, or of `rank`.

        With `follow` until the run has ended; after a broken connection it continues at the same byte. `tail` is a
        number of lines, `since` a duration before now or a time.
        """
        view = _key(self._resolve_run(run).state)
        return LogReader(
            self._api, view, ranks=() if rank is None else (rank,), follow=follow, tail=tail, since=since
        ).lines()

    def members(self, run: Run | str) -> Sequence[Member]:
        """Return the members of a run by rank."""
        view = _key(self._resolve_run(run).state)
        return [to_model(item, Member) for item in self._api.each_item(run_path(view, "/members"))]

    def metrics(self, run: Run | str, *names: str, since: str = "1h") -> Sequence[Series]:
        """Return the resources that a run used, and its training figures, as bands over its ranks.

        `names` are quantities such as `gpu.used`, or beginnings such as `train.`; all without any. `since` is a
        duration before now or a time.
        """
        params = {"since": since, "name": list(names) or None}
        answer = self._api.get(run_path(_key(self._resolve_run(run).state), "/metrics"), params)
        return [to_model(series, Series) for series in answer["series"]]

    def node_metrics(self, node: str, *names: str, since: str = "1h") -> Sequence[NodeSeries]:
        """Return what a node and each of its GPUs did in the last week, whether or not a run held them.

        `names` and `since` are those of `metrics`.
        """
        params = {"since": since, "name": list(names) or None}
        answer = self._api.get(f"/v1/nodes/{quote(node, safe='')}/metrics", params)
        return [to_model({**series, "at": answer["at"]}, NodeSeries) for series in answer["series"]]

    def results(
        self, run: Run | str, *, states: Sequence[str] = (), best: bool = False, by: str = ""
    ) -> Sequence[Result]:
        """Return how the members of a sweep ended, and their results, by index; with `best`, the best first.

        `states` selects members by state, and `by` names the value that orders them.
        """
        params = {"state": list(states) or None, "best": best, "by": by}
        path = run_path(_key(self._resolve_run(run).state), "/results")
        return [to_model(item, Result) for item in self._api.each_item(path, params)]

    def events(self, run: Run | str, *, follow: bool = False) -> Iterator[Event]:
        """Yield what happened to a run, the oldest first; with `follow` until it has ended, each event once."""
        view = _key(self._resolve_run(run).state)
        documents = events(self._api, view) if follow else self._api.documents(run_path(view, "/events"))
        return (to_model(document, Event) for document in documents)

    def explain(self, run: Run | str) -> Explanation:
        """Return why a run is in its phase, and what would start a waiting one."""
        document = self._api.get(run_path(_key(self._resolve_run(run).state), "/explain"))
        return to_model({**document, "document": document}, Explanation)

    def exec(self, run: Run | str, command: str | Sequence[str], *, rank: int = 0) -> CommandOutput:
        """Run a command in a member of a running run and return what it printed. A command that is a text is split at
        spaces outside of quotes; no shell runs it.

        Raises InvalidInput for a text that needs a shell, Unavailable if the connection breaks before the command ends,
        and KajitoriError if it did not start.
        """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        from kajitori.client.members.streams import output_of
        from kajitori.client.submit.keywords import split_command

        words = split_command(command)
        view = _key(self._resolve_run(run).state)
        with ThreadPoolExecutor(1) as thread:  # a notebook's own thread runs an event loop already
            return thread.submit(asyncio.run, output_of(self.target, view, words, rank)).result()

    def stop(self, run: Run | str, grace: str | None = None) -> Run:
        """Ask a run to stop and return it; its checkpoint is kept. `grace` (`"5m"`) replaces the run's own."""
        return self._post_change(run, "/stop", {} if grace is None else {"grace": grace})

    def kill(self, run: Run | str) -> Run:
        """End a run at once and return it; its checkpoint is kept."""
        return self._post_change(run, "/stop", {"grace": "0s"})

    def signal(self, run: Run | str, signal: str | int, *, ranks: Iterable[int] = ()) -> Sequence[SignalledProgram]:
        """Send the programs of a run's members a signal, such as `"USR1"` or `signal.SIGUSR1`: of all members that run,
        or of `ranks`. Return each program, with whether it ignores the signal.

        The run goes on, also after `"KILL"`, which is a failure of its programs: use `kill` and `stop` to end a run.
        Raises WrongState if no member runs, or if a program did not get the signal.
        """
        from kajitori.client.signals import signal_name, signal_programs

        view = _key(self._resolve_run(run).state)
        items = signal_programs(self._api, view, signal_name(signal), ranks)
        return [to_model(item, SignalledProgram) for item in items]

    def resume(self, run: Run | str) -> Run:
        """Start an ended run again, from its checkpoint, and return it."""
        return self._post_change(run, "/resume", None)

    def update(self, run: Run | str, **changes: str | int) -> Run:
        """Change a run that waits or runs without starting it again, and return it.

        The changes are those of `kaji update`: `time_limit`, `priority`, `restarts`, `array`, `rm_after` and
        `on_stuck`; `"default"` stands for the policy's default.
        """
        from kajitori.client.submit.update import in_words, update_body

        found = self._resolve_run(run)
        try:
            answer = self._api.patch(run_path(_key(found.state)), update_body(changes), uid=found.uid)
        except InvalidInput as error:
            raise in_words(error, str) from None
        found.state = to_model(answer, RunState)
        return found

    def remove(self, run: Run | str, *, force: bool = False, checkpoint: bool = False) -> None:
        """Delete a run that has ended; with `force` any run, with `checkpoint` also its checkpoint. Does not wait until
        it is gone. Raises WrongState for a run that has not ended."""
        found = self._resolve_run(run)
        if not force and not found.is_final and not found.refresh().is_final:
            raise WrongState(f"{found.name} is {found.phase}", hint="stop it first, or remove it with force=True")
        params: Params = {"checkpoint": checkpoint, "grace": "0s" if force else None}
        self._api.delete(run_path(_key(found.state)), params, uid=found.uid)

    def _post_change(self, run: Run | str, action: str, body: object) -> Run:
        found = self._resolve_run(run)
        answer = self._api.post(run_path(_key(found.state), action), body, uid=found.uid)
        found.state = to_model(answer, RunState)
        return found

    def _resolve_run(self, run: Run | str) -> Run:
        return self.get(run) if isinstance(run, str) else run

    def _find_run(self, name: str) -> RunState:
        return to_model(find_run(self._api, name, self.namespace or None), RunState)

    def _run_request(
        self, image: str | None, command: str | Sequence[str], options: RunOptions
    ) -> tuple[RunRequest, Pack | None]:
        from kajitori.client.submit import sending
        from kajitori.client.submit.keywords import words_of
        from kajitori.client.submit.request import build_request
        from kajitori.codepack.packing import digest_listing, list_folder

        packs: list[Pack] = []

        def pack(folder: Path) -> str:
            packs.append(digest_listing(list_folder(folder)))
            return packs[0].digest

        words = words_of(image, command, options, self.namespace)
        request = build_request(
            words,
            environment=os.environ,
            folder=Path.cwd(),
            read_text=lambda file: Path(file).expanduser().read_text(encoding="utf-8"),
            pack=pack,
            template=None if words.template is None else sending.template_spec(self._api, words.template),
        )
        return sending.at_home(request, self.namespace), packs[0] if packs else None


def _key(state: RunState) -> dict[str, Any]:
    """Return the fields of a view that requests for the run need."""
    return {"name": state.name, "namespace": state.namespace, "uid": state.uid}


def _as_words(words: str | Sequence[str]) -> list[str] | None:
    return ([words] if isinstance(words, str) else list(words)) or None
