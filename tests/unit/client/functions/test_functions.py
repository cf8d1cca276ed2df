"""Functions that workers on the cluster call: the uploaded files, the results, and the work of the workers."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, problem, view
from tests.unit.client.test_client import client_of

import kajitori
from kajitori import Call, CallCancelled, CallFailed
from kajitori.client.connection import Lost
from kajitori.client.functions import calls, worker
from kajitori.client.functions import function as module
from kajitori.client.functions.calls import RemoteTraceback
from kajitori.client.functions.pickling import pickled_function
from kajitori.core.calls.queue import CallQueue, Entry, Outcome, Worker


@kajitori.function
def doubled(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is negative")
    return value * 2


@kajitori.function
def counted(count: int) -> Iterator[int]:
    yield from range(count)


class Cluster:
    """A Web API with one worker that does calls when the client waits for outcomes."""

    def __init__(self, function: Any) -> None:
        self.api = FakeWebApi(queues={}, answers={"POST /v1/runs": self.make})
        self.queue, self.entries = CallQueue(), list[Entry]()
        self.worker = worker.Worker(self, function._wrapped, rank=0, attempt=1)  # type: ignore[arg-type]
        self.api.answers["GET /v1/sign-in"] = {"namespace": "vision"}
        original = self.api.answer
        self.api.answer = lambda call: self.code(call) or original(call)  # type: ignore[method-assign]
        self.client = client_of(self.api)
        function._client = self.client

    def code(self, call: Any) -> Any:
        return (200, {"digest": "x"}) if call.path.startswith("/v1/code/") else None

    def make(self, call: Any) -> Any:
        made = view(call.body["name"], "Running", spec=call.body["spec"])
        self.api.runs.append(made)
        path = f"/v1/runs/vision/{made['name']}"
        self.api.answers[f"POST {path}/calls"] = self.add
        self.api.answers[f"GET {path}/calls"] = self.outcomes
        return made

    def apply(self, entry: Entry) -> None:
        self.queue.apply(len(self.entries), entry)
        self.entries.append(entry)

    def add(self, call: Any) -> Any:
        if "cancel" in call.body:
            outcomes = self.queue.cancelled(call.body["cancel"])
            self.apply(Entry(outcomes=outcomes, payloads=[b""] * len(outcomes)))
            return {"cancelled": len(outcomes), "over": self.queue.is_over}
        payloads = [base64.b64decode(one) for one in call.body["arguments"]]
        self.apply(Entry(first=call.body["first"], added=len(payloads), closed=call.body["closed"], payloads=payloads))
        return {}

    def outcomes(self, call: Any) -> Any:
        if self.queue.closed and not self.queue.is_over:
            self.worker.run()
        after = int(call.query["after"][0])
        found = [
            {"call": one.call, "kind": one.kind, "part": one.part, "value": base64.b64encode(payload).decode()}
            for entry in self.entries[after:]
            for one, payload in zip(entry.outcomes, entry.payloads, strict=False)
        ]
        counts = {"added": self.queue.added, "closed": self.queue.closed}
        return {"items": found, "next": len(self.entries), **counts}

    def post(self, document: dict[str, Any]) -> dict[str, Any]:
        """Answer the worker as the server does."""
        me = Worker(document["rank"], document["attempt"], document["process"])
        outcomes = [Outcome(one["call"], one["kind"], one["part"]) for one in document["outcomes"]]
        payloads = [base64.b64decode(one["value"]) for one in document["outcomes"]]
        done = {one.call for one in outcomes if one.is_last}
        returned = self.queue.held_by(me, document.get("returned", ()))
        taken, _ = self.queue.work_for(me, document["want"], done, lambda _: True)
        self.apply(Entry(worker=me, outcomes=outcomes, taken=taken, returned=returned, payloads=payloads))
        places = [self.queue.place_of(call) for call in taken]
        arguments = [self.entries[place].payloads[position] for place, position in places]
        calls = [
            {"call": call, "arguments": base64.b64encode(each).decode()}
            for call, each in zip(taken, arguments, strict=True)
        ]
        return {"calls": calls, "over": self.queue.is_over}


def test_a_function_is_called_here_as_before() -> None:
    assert (doubled(2), doubled.local(3)) == (4, 6)


def test_a_map_is_one_sweep_and_its_results_come_in_order() -> None:
    cluster = Cluster(doubled)
    assert list(doubled.map(range(100), at_most=7)) == [value * 2 for value in range(100)]
    [made] = [call.body for call in cluster.api.calls_to("POST", "/v1/runs")]
    assert (made["spec"]["array"], made["spec"]["restarts"]) == ("0-6", 3)
    assert made["spec"]["stopAt"] == "first-success"
    assert made["name"].startswith("doubled-")
    Cluster(doubled)
    assert sorted(doubled.map(range(5), ordered=False)) == [0, 2, 4, 6, 8]
    assert list(doubled.map([])) == []


def test_a_map_whose_start_was_not_answered_goes_on_with_the_run_that_was_made() -> None:
    """The map failed, and the workers of its run waited for calls for good."""
    cluster = Cluster(doubled)

    def lose(call: Any) -> Any:
        cluster.make(call)
        raise Lost("the proxy gave up")

    cluster.api.queues["POST /v1/runs"] = [lose, problem(409, "AlreadyExists", "there is one")]
    assert list(doubled.map(range(3))) == [0, 2, 4]
    assert len(cluster.api.runs) == 1


def test_an_exception_comes_back_with_its_remote_traceback() -> None:
    Cluster(doubled)
    with pytest.raises(ValueError, match="-1 is negative") as caught:
        doubled.remote(-1).result(10)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in doubled" in str(caught.value.__cause__)
    assert "worker.py" not in str(caught.value.__cause__)


class TwoWords(Exception):
    """An exception that pickle cannot restore."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@kajitori.function
def fails(how: str) -> None:
    if how == "exit":
        sys.exit("no data")
    raise TwoWords("this", "that")


def test_an_exception_that_cannot_be_restored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """sys.exit() ends the call, and neither the worker nor the caller."""
    Cluster(fails)
    with pytest.raises(CallFailed, match=r"failed: .*TwoWords: this and that"):
        fails.remote("").result(10)
    Cluster(fails)
    with pytest.raises(CallFailed, match="failed: SystemExit: no data") as caught:
        fails.remote("exit").result(10)
    assert "in fails" in str(caught.value.__cause__)
    assert "call 0 failed\nTraceback" in capsys.readouterr().err


def test_an_image_that_cannot_call_the_function_fails_each_call_at_once(tmp_path: Path) -> None:
    """The worker does not even read the arguments, which another version of Python may not be able to read."""
    wrong = worker.loaded(str(tmp_path), {"python": [3, 99]})
    (tmp_path / worker.FUNCTION_FILE).write_bytes(b"cnowhere\nf\n.")
    absent = worker.loaded(str(tmp_path), {"python": list(sys.version_info[:2])})
    for unusable, words in ((wrong, r'pickled by Python 3.99, .* image="python:3.99"'), (absent, r'code="\."')):
        cluster = Cluster(doubled)
        cluster.worker._function = unusable
        with pytest.raises(CallFailed, match=words) as caught:
            doubled.remote(1).result(10)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(("ends", "code"), [("os._exit(0)", 1), ("os._exit(7)", 7), ("os.fork() or os._exit(0)", 0)])
def test_a_function_that_ends_its_process_kills_its_worker(ends: str, code: int) -> None:
    """A worker's exit code 0 ends the map. A process that a function forked may end as it likes."""
    program = f"import os, runpy; runpy.run_path({worker.__file__!r})['guard_exit'](); {ends}"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code


def test_tracebacks_of_workers_show_the_functions_lines(tmp_path: Path) -> None:
    """The worker has the function as a pickle, without its file."""
    pickled = pickled_function(doubled._wrapped)
    (tmp_path / worker.FUNCTION_FILE).write_bytes(pickled)
    source = module._source_of(doubled._wrapped)
    loaded = worker.loaded(str(tmp_path), {"python": list(sys.version_info[:2]), "source": source})
    cluster = Cluster(doubled)
    cluster.worker._function = loaded
    with pytest.raises(ValueError) as caught:
        doubled.remote(-1).result(10)
    assert 'raise ValueError(f"{value} is negative")' in str(caught.value.__cause__)
    assert module._source_of(len) is None


def test_what_cannot_be_pickled_is_named_before_a_run_is_made() -> None:
    cluster, lock = Cluster(doubled), threading.Lock()
    with pytest.raises(kajitori.errors.InvalidInput) as caught:
        doubled.remote(lock)  # type: ignore[arg-type]
    [fault] = caught.value.faults
    assert (fault.field, fault.value[:10]) == ("value", "<unlocked ")
    assert fault.message.startswith("cannot be pickled: cannot pickle")
    with pytest.raises(TypeError, match="missing a required argument: 'value'"):
        doubled.remote()  # type: ignore[call-arg]

    @kajitori.function(client=cluster.client)
    def locked(value: int) -> int:
        with lock:
            return value

    with pytest.raises(kajitori.errors.InvalidInput, match=r"^lock: cannot be pickled"):
        locked.map([1])
    assert not cluster.api.calls_to("POST", "/v1/runs")


def test_a_run_whose_calls_are_refused_is_ended() -> None:
    """Otherwise its workers would wait for calls that never come."""
    cluster = Cluster(doubled)
    refused = {"detail": "the request's body has 20 bytes or more"}
    cluster.add = lambda call: (413, refused)  # type: ignore[method-assign]
    with pytest.raises(kajitori.errors.TooLarge, match=r"the arguments of a call have \d+ bytes"):
        doubled.remote(1)
    assert len(cluster.api.calls_to("POST", "/stop")) == 1


def test_methods_and_coroutines_are_refused_when_they_are_made_functions() -> None:
    async def later() -> None: ...

    with pytest.raises(TypeError, match=r"asyncio\.run"):
        kajitori.function(later)
    with pytest.raises((TypeError, RuntimeError)) as caught:  # RuntimeError before Python 3.12

        class Model:
            @kajitori.function
            def fit(self) -> None: ...

    assert "Model.fit is a method" in str(caught.value.__cause__ or caught.value)


def test_a_map_whose_caller_stops_ends_its_sweep() -> None:
    cluster = Cluster(doubled)
    results = doubled.map(range(10))
    next(results)
    results.close()
    assert [call.body for call in cluster.api.calls_to("POST", "/stop")] == [{"grace": "0s"}]


def test_generators_are_streams() -> None:
    Cluster(counted)
    assert list(counted.remote(4)) == [0, 1, 2, 3]
    Cluster(counted)
    assert counted.remote(3).result(10) == [0, 1, 2]
    Cluster(doubled)
    with pytest.raises(TypeError, match="not a generator"):
        list(doubled.remote(1))


def test_a_call_is_found_again_by_its_id() -> None:
    cluster = Cluster(doubled)
    call = doubled.remote(21)
    assert Call.from_id(call.id, cluster.client).result(10) == 42
    with pytest.raises(kajitori.errors.InvalidInput):
        Call.from_id("doubled", cluster.client)
    with pytest.raises(kajitori.errors.InvalidInput, match="3 is not the id of a call"):
        Call.from_id(3, cluster.client)  # type: ignore[arg-type]
    with pytest.raises(kajitori.errors.NotFound, match="has no call 7") as caught:
        Call.from_id(call.id[:-1] + "7", cluster.client).result(10)
    assert caught.value.hint == "its calls are 0 to 0"


def test_a_call_without_a_result_says_what_its_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a timeout: why the run has not done it. For a run that ended: what helps."""
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.0)
    cluster = Cluster(doubled)
    cluster.worker.run = lambda: None  # type: ignore[method-assign]
    call = doubled.remote(1)
    status = cluster.api.runs[-1]["status"]
    status |= {"phase": "Starting", "reason": "ImagePull", "message": "no such image"}
    with pytest.raises(TimeoutError, match=r"after 0\.01 s; doubled-\w+: Starting \(ImagePull\): no such image"):
        call.result(0.01)
    status |= {"phase": "Failed", "reason": "CommandNotFound", "message": "python3: not found"}
    with pytest.raises(CallFailed, match="the run is Failed: CommandNotFound: python3: not found") as caught:
        call.result(1)
    assert caught.value.hint.startswith("the image has no python3; one that fits: image='python:3.")


def test_cancelling_a_call_ends_that_call_alone() -> None:
    """A map leaves it out. If no other call is left, the run is ended; `cancel` of the map ends the run at once."""
    cluster = Cluster(doubled)
    results = doubled.map(range(4))
    results.calls[2].cancel()
    assert not cluster.api.calls_to("POST", "/stop")
    assert list(results) == [0, 2, 6]
    with pytest.raises(CallCancelled):
        results.calls[2].result(1)
    assert results.calls[3].result(1) == 6
    results.cancel()
    assert len(cluster.api.calls_to("POST", "/stop")) == 1
    cluster = Cluster(doubled)
    call = doubled.remote(1)
    call.cancel()
    call.cancel()
    assert len(cluster.api.calls_to("POST", "/stop")) == 1
    with pytest.raises(CallCancelled):
        call.result(1)


def test_a_worker_leaves_a_call_that_was_cancelled() -> None:
    """The outcomes of its other calls stay. A signal that comes too late changes nothing."""
    cluster = Cluster(doubled)
    found = cluster.worker

    def late(value: int) -> int:
        if value == 1:
            found._stopped.add(found._current)
            try:
                found.interrupt()
            except Exception:
                raise AssertionError("the function must not swallow it") from None
        return value

    found._function = late
    cluster.apply(Entry(first=0, added=3, closed=True, payloads=[pickle.dumps(((value,), {})) for value in range(3)]))
    cluster.apply(Entry(outcomes=cluster.queue.cancelled([1]), payloads=[b""]))
    for call in range(3):
        found._do(call, pickle.dumps(((call,), {})))
        found.interrupt()
    assert [outcome["call"] for outcome in found._outcomes] == [0, 2]


def test_a_long_call_holds_up_neither_results_nor_the_calls_behind_it() -> None:
    """The second thread's look hands in what is there, and other workers get the calls that were not begun."""
    cluster = Cluster(doubled)
    cluster.apply(Entry(first=0, added=8, closed=True, payloads=[pickle.dumps(((value,), {})) for value in range(8)]))
    found, seen = cluster.worker, list[Any]()
    found._mean_seconds = 0.1

    def long(value: int) -> int:
        if value == 1 and not seen:
            found.look(cluster, 1)  # type: ignore[arg-type]
            seen.append((sorted(cluster.queue.ended), found._next()))
            seen.append(cluster.queue.work_for(Worker(1, 1, "b"), 4, (), lambda _: True)[0])
        return value

    found._function = long
    found.run()
    assert seen == [([0], None), [2]]
    assert cluster.queue.is_over and not cluster.queue._returned


def test_a_pool_takes_calls_until_it_is_closed() -> None:
    Cluster(doubled)
    with doubled.pool(at_most=2) as pool:
        calls = [pool.remote(value) for value in range(3)]
    assert [call.result(10) for call in calls] == [0, 2, 4]


def test_calls_are_yielded_as_they_end() -> None:
    """Also those of several runs; a call that can no longer end counts as ended."""
    cluster = Cluster(doubled)
    cluster.worker.run = lambda: None  # type: ignore[method-assign]
    with doubled.pool(at_most=2) as pool:
        calls = [pool.remote(value) for value in range(3)]
    done = pickle.dumps(21)
    for call in (2, 0):
        cluster.apply(Entry(outcomes=[Outcome(call, "value")], payloads=[done]))
    ended = kajitori.as_completed(calls, timeout=0)
    assert [next(ended), next(ended)] == [calls[0], calls[2]]
    with pytest.raises(TimeoutError, match="1 calls have not ended"):
        next(ended)
    Cluster(doubled)
    other = doubled.remote(4)
    cluster.apply(Entry(outcomes=[Outcome(1, "value")], payloads=[done]))
    assert {call.id for call in kajitori.as_completed([calls[1], other])} == {calls[1].id, other.id}
    calls[1].queue._over = "the run is Failed"
    assert calls[1].has_ended


def test_calls_of_a_run_that_ended_have_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how the run ended."""
    monkeypatch.setattr("kajitori.client.functions.calls.LOOK_SECONDS", 0.0)
    cluster = Cluster(doubled)
    cluster.worker.run = lambda: None  # type: ignore[method-assign]
    call = doubled.remote(1)
    cluster.api.runs[0]["status"] |= {"phase": "Failed", "reason": "Refused", "message": "no room"}
    with pytest.raises(CallFailed, match="Failed: Refused: no room"):
        call.result(10)


def test_a_call_that_has_not_ended_times_out() -> None:
    cluster = Cluster(doubled)
    cluster.worker.run = lambda: None  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        doubled.remote(1).result(0)


def test_workers_get_the_function_and_the_callers_code(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "helper.py").write_text("x = 1")
    (tmp_path / "staged").mkdir()
    wanted = kajitori.function(code=tmp_path / "code")(lambda: 1)
    module._stage_files(
        tmp_path / "staged", wanted, pickled_function(wanted._wrapped), {"token": "t", "namespace": "vision"}
    )
    own = tmp_path / "staged" / worker.FOLDER
    assert (tmp_path / "staged" / "helper.py").exists()
    assert (own / worker.LIBRARY_FOLDER / "cloudpickle" / "__init__.py").exists()
    assert json.loads((own / worker.SETTINGS_FILE).read_text())["python"] == list(sys.version_info[:2])
    assert pickle.loads((own / worker.FUNCTION_FILE).read_bytes())() == 1


def test_a_result_over_the_limit_is_an_error_of_its_call() -> None:
    """The other outcomes of the request are kept."""
    cluster = Cluster(doubled)
    post = cluster.post

    def limited(document: dict[str, Any]) -> dict[str, Any]:
        if any(len(one["value"]) > 500 and one["kind"] == "value" for one in document["outcomes"]):
            raise worker.TooLarge("the request's body has 1380 bytes or more; 1000 are allowed")
        return post(document)

    cluster.post = limited  # type: ignore[method-assign]
    cluster.worker._function = lambda value: "x" * 1000 if value == 1 else value
    results = doubled.pool(1)
    calls = [results.remote(value) for value in range(3)]
    results.close()
    assert [calls[0].result(10), calls[2].result(10)] == [0, 2]
    words = r"the result of a call has 1,0\d\d bytes, which is too much for one request; put large data on a volume"
    with pytest.raises(ValueError, match=words):
        calls[1].result(10)


def test_unknown_options_are_type_errors() -> None:
    with pytest.raises(TypeError, match=r"function\(\) got an unexpected keyword argument 'gpu'; did you mean gpus\?"):
        kajitori.function(gpu=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="'replicas'"):
        kajitori.function(replicas=3)
    with pytest.raises(kajitori.errors.InvalidInput, match="at_most"):
        doubled.pool(at_most=0)
