"""`kaji run --code`: the folder is uploaded before the run is created."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import Call, FakeWebApi, clock_in, invoke, problem, view

from kajitori.cli.submit.code import what_code_would_bring, where_the_image_belongs
from kajitori.codepack.packing import pack
from kajitori.codepack.parts import decompress


class Store:
    """The Web API's side of an upload, with failures that come first."""

    def __init__(self, folder: Path) -> None:
        self.packed = pack(folder)
        self.parts: dict[str, bytes] = {}
        self.failing: list[tuple[int, Any]] = []
        self.failing_at_the_end: list[tuple[int, Any]] = []
        self.done = False
        path = f"/v1/code/{self.packed.digest}"
        self.api = FakeWebApi(
            answers={
                f"GET {path}": lambda _: {} if self.done else problem(404, "NotFound", "there is no code"),
                f"GET {path}/parts": lambda _: {"items": self._items(), "partBytes": 8 << 20, "maxBytes": 1 << 30},
                f"PUT {path}/parts/0": self._put,
                f"PUT {path}/parts/1": self._put,
                "GET /v1/policy": {"policy": {"code": {"archive": "1Gi"}}},
                f"POST {path}/complete": self._complete,
                "POST /v1/runs": lambda call: view("bert", spec=call.body["spec"]),
            }
        )

    def _items(self) -> list[dict[str, Any]]:
        return [{"number": 0, "sha256": list(self.parts)}] if self.parts else []

    def _put(self, call: Call) -> Any:
        if self.failing:
            return self.failing.pop(0)
        self.parts[call.query["sha256"][0]] = decompress(call.body)
        return {"number": 0, "sha256": []}

    def _complete(self, call: Call) -> Any:
        if self.failing_at_the_end:
            return self.failing_at_the_end.pop(0)
        self.done = b"".join(self.parts[sha256] for sha256 in call.body["parts"]) == self.archive
        return {}

    @property
    def archive(self) -> bytes:
        return b"".join(self.packed.listing.read(0, self.packed.size_bytes))

    def paths(self) -> list[str]:
        return [f"{call.method} {call.path.rpartition('/')[2]}" for call in self.api.calls]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "train.py").write_text("print(1)")
    return Store(tmp_path)


@pytest.fixture
def large(tmp_path: Path) -> Store:
    """A folder of more than one part."""
    (tmp_path / "train.py").write_text("print(1)")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(9 << 20)
    return Store(tmp_path)


def run(store: Store, *more: str) -> Any:
    return invoke(store.api, "run", "-d", *more, "--code", store.packed.listing.root, "python:3.12", "train.py")


def test_the_run_refers_to_the_uploaded_code(store: Store) -> None:
    """A second run uploads nothing."""
    result = run(store)
    assert (result.exit_code, result.stdout) == (0, "bert\n")
    assert store.done and hashlib.sha256(store.archive).hexdigest() == store.packed.digest.removeprefix("sha256:")
    assert "in 1 file of" in result.stderr and "uploaded" in result.stderr
    (made,) = store.api.calls_to("POST", "/v1/runs")
    assert made.body["spec"]["code"] == {"digest": store.packed.digest}
    store.api.calls.clear()
    assert "uploaded" not in run(store).stderr
    assert store.paths() == [f"GET {store.packed.digest}", "POST runs"]


@pytest.mark.parametrize("status", [429, 503])
def test_an_upload_to_a_busy_server_is_retried(store: Store, status: int) -> None:
    """Parts that the server has are not sent again."""
    busy = problem(status, "Busy", "too many uploads")
    store.failing = [busy]
    assert run(store, "-q").exit_code == 0
    assert store.paths().count("PUT 0") == 2
    assert store.done


@pytest.mark.parametrize(("status", "sent"), [(507, 1), (503, 28)])
def test_an_upload_is_given_up_after_a_while(store: Store, status: int, sent: int) -> None:
    """This holds even if the server answers other requests. If its disk is full, there is no retry."""
    store.failing = [problem(status, "StorageFull", "the store is full")] * 100
    result = run(store, "-q")
    assert result.exit_code == 125
    assert "the store is full" in result.stderr
    assert store.paths().count("PUT 0") == sent
    assert store.api.calls_to("POST", "/v1/runs") == []


@pytest.mark.parametrize(("failures", "reports"), [(3, 0), (6, 1)])
def test_a_long_wait_is_reported_once(store: Store, failures: int, reports: int) -> None:
    """It is reported after some seconds, with its reason and its end."""
    store.failing = [problem(503, "Unavailable", "the store does not answer")] * failures
    result = run(store)
    assert (result.exit_code, store.done) == (0, True)
    assert result.stderr.count(f"code: the store does not answer; it is tried again until {clock_in(120)}\n") == reports
    assert result.stderr.count("code: the server answers again\n") == reports


def test_an_upload_continues_after_a_failure_at_its_end(store: Store) -> None:
    """The parts are not sent again."""
    store.failing_at_the_end = [problem(503, "Unavailable", "the store does not answer")]
    assert run(store, "-q").exit_code == 0
    assert (store.paths().count("PUT 0"), store.paths().count("POST complete")) == (1, 2)


def test_a_refused_upload_creates_no_run(store: Store) -> None:
    store.failing = [problem(403, "Forbidden", "bert may not create runs")]
    result = run(store)
    assert result.exit_code == 2
    assert "may not create runs" in result.stderr
    assert store.api.calls_to("POST", "/v1/runs") == []


def test_a_dry_run_uploads_nothing(store: Store) -> None:
    store.api.answers["POST /v1/runs"] = {"run": view("bert"), "manifests": [], "findings": [], "start": {}}
    result = invoke(store.api, "run", "--dry-run", "--code", store.packed.listing.root, "python:3.12", "train.py")
    assert result.exit_code == 0, result.stderr
    assert store.paths() == ["POST runs"]


def test_the_limit_is_known_before_a_large_folder_is_read(large: Store, tmp_path: Path) -> None:
    """A user who named the home folder is refused at once."""
    os.truncate(tmp_path / "data.bin", 1 << 40)  # reading it would take hours
    result = run(large)
    assert result.exit_code == 2
    assert "1.0 TiB in 2 files; 1.0 GiB are allowed. The largest: data.bin (1.0 TiB), train.py" in result.stderr
    assert large.paths() == ["GET policy", "POST runs"]
    assert large.api.calls[1].query["dryRun"] == ["true"]  # to report all other reasons as well


@pytest.mark.parametrize(
    "reports", [problem(403, "Forbidden", "ada may not"), {"policy": {}}, {"policy": {"code": None}}]
)
def test_an_unknown_limit_does_not_prevent_an_upload(large: Store, reports: Any) -> None:
    large.api.answers["GET /v1/policy"] = reports
    assert run(large).exit_code == 0
    assert large.done


def test_a_run_that_would_be_refused_is_refused_before_the_upload(large: Store) -> None:
    large.api.answers["POST /v1/runs"] = problem(
        422, "Refused", "refused", faults=[{"field": "spec.resources.gpu", "message": "64 GPUs", "hint": "less"}]
    )
    result = run(large, "--gpus", "64")
    assert result.exit_code == 2
    assert "--gpus: 64 GPUs" in result.stderr
    assert "PUT 0" not in large.paths()
    (asked,) = large.api.calls_to("POST", "/v1/runs")
    assert asked.query["dryRun"] == ["true"]


def test_the_upload_begins_if_the_check_of_the_run_is_unavailable(large: Store) -> None:
    """The run is checked once, however often the connection breaks."""
    made = large.api.answers["POST /v1/runs"]
    large.api.queues["POST /v1/runs"] = [problem(503, "Unavailable", "the planner does not answer"), made]
    large.failing = [problem(503, "Unavailable", "gone")] * 2
    assert run(large).exit_code == 0
    assert (large.done, len(large.api.calls_to("POST", "/v1/runs"))) == (True, 2)


MISSING = "python: can't open file '/app/train.py': [Errno 2] No such file or directory"
BRING = "is in this folder, not in the run: bring the folder along with --code ."


@pytest.mark.parametrize(
    ("words", "reason", "message", "reports"),
    [
        (["python", "train.py"], "ProgramFailed", MISSING, f"train.py {BRING}"),
        (
            ["sh", "-c", "cat train.py"],
            "ProgramFailed",
            "cat: train.py: No such file or directory",
            f"train.py {BRING}",
        ),
        (["python", "-m", "model.fit"], "ProgramFailed", "No module named 'model'", f"model {BRING}"),
        (["python", "-m", "nets"], "ProgramFailed", "python: No module named nets", f"nets.py {BRING}"),
        (["a"], "ProgramFailed", "FileNotFoundError: No such file or directory: 'conf/a.yaml'", f"conf/a.yaml {BRING}"),
        (
            ["train.py"],
            "CommandNotFound",
            'exec: "train.py": executable file not found in $PATH',
            f"train.py {BRING}, and say what runs the file: python3 train.py",
        ),
        (["python", "other.py"], "ProgramFailed", MISSING.replace("train", "other"), ""),
        (["python", "train.py"], "ProgramFailed", "exit code 1: ValueError", ""),
        (["ls", ".", "/"], "ProgramFailed", "ls: no such file or directory", ""),
        (["ls", "../x"], "ProgramFailed", "ls: ../x: no such file or directory", ""),
        (["x" * 5000], "CommandNotFound", f"{'x' * 5000}: not found", ""),
        (["python", "train.py"], "OutOfMemory", "", ""),
    ],
)
def test_a_missing_file_of_this_folder_leads_to_a_hint_about_code(
    tmp_path: Path, words: list[str], reason: str, message: str, reports: str
) -> None:
    """Docker's users mount the present folder. The hint names --code only if that would have helped."""
    inside = tmp_path / "inside"
    for name in ("inside/conf", "inside/model"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("x", "inside/train.py", "inside/nets.py", "inside/conf/a.yaml"):
        (tmp_path / name).touch()
    run = view("bert", "Failed", spec={"args": words}, status={"reason": reason, "message": f"member 0: {message}"})
    assert what_code_would_bring(run, inside) == reports
    brought = view("bert", "Failed", spec=run["spec"] | {"code": {"digest": "sha256:"}}, status=run["status"])
    assert what_code_would_bring(brought, inside) == ""


def test_a_forgotten_image_is_explained() -> None:
    """`kaji run python -c ...` looks for a program called -c in the image python."""
    for image, word in (("python", "-c"), ("python3", "train.py")):
        spec = {"image": image, "args": [word, "1"]}
        failed = view("bert", "Failed", spec=spec, status={"reason": "CommandNotFound"})
        assert where_the_image_belongs(failed).endswith(f"kaji run IMAGE {image} {word} …")
    for word, reason in (("train", "CommandNotFound"), ("-c", "ProgramFailed"), ("train", "")):
        spec = {"image": "python", "args": [word]}
        assert not where_the_image_belongs(view("bert", "Failed", spec=spec, status={"reason": reason}))


def test_the_hint_about_code_follows_the_reason_of_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    failed = view("bert", "Failed", spec={"args": ["train.py"]}, status={"reason": "ProgramFailed", "message": MISSING})
    api = FakeWebApi([failed], answers={"POST /v1/runs": (201, view("bert", "Queued"))})
    result = invoke(api, "run", "-q", "python:3", "train.py")
    assert result.stderr.splitlines()[-2:] == ["      see kaji describe bert", f"      train.py {BRING}"]
