"""`kaji run`: what is sent, what is shown while a run starts and runs, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    cli_of,
    clock_in,
    cut_after,
    frame,
    invoke,
    logged,
    ndjson,
    problem,
    view,
)

from kajitori.cli.app import kaji
from kajitori.client.connection import Lost, NotReached
from kajitori.core.spec.run import parse_spec
from kajitori.errors import InvalidInput

RUN = "/v1/runs/vision/bert"


def log(*lines: str) -> list[bytes]:
    return logged(*lines)


def story(end: dict[str, Any], *before: dict[str, Any], **more: Any) -> FakeWebApi:
    """A run that goes through these views to its end."""
    first = before[0] if before else view("bert", "Queued")
    to_come = [*before, end]

    def watch() -> Iterator[bytes]:
        """The view now, and every later one; whoever connects again begins with what is the present by then."""
        yield ndjson(to_come[:1])[0]
        while len(to_come) > 1:
            del to_come[0]
            yield ndjson(to_come[:1])[0]

    answers = {"POST /v1/runs": (201, first), f"GET {RUN}/watch": lambda _: watch()}
    return FakeWebApi([end], answers=answers | more)


def ended(phase: str = "Succeeded", **status: Any) -> dict[str, Any]:
    return view("bert", phase, status=status)


def test_detached_prints_the_name_only() -> None:
    """-d leaves at once with the name on stdout; on stderr a line for each risk, and one for all defaults."""
    findings = [
        {"code": "CpuDefaulted", "message": "1 core"},
        {"code": "QosGuaranteed", "message": "requests are limits"},
        {"code": "TolerationsAdded", "message": "policy adds tolerations of gpu"},
        {"code": "RestartsForcedToZero", "message": "it is not started again"},
        {"code": "GraceDefaulted", "message": "30s grace"},
    ]
    made = view("bert", "Queued", status={"findings": findings})
    api = FakeWebApi(answers={"POST /v1/runs": (201, made)})
    result = invoke(api, "run", "-d", "--name", "bert", "-e", "A=1", "python:3.11", "python", "-c", "1", "--debug")
    assert result.exit_code == 0
    assert result.stdout == "bert\n"
    assert result.stderr == (
        "note: it is not started again\nnote: defaults: 1 core, 30s grace; kaji run --dry-run tells more\n"
    )
    (call,) = api.calls
    assert call.body == {
        "name": "bert",
        "namespace": "vision",
        "spec": {"image": "python:3.11", "args": ["python", "-c", "1", "--debug"], "env": {"A": "1"}},
    }


def test_what_is_likely_to_end_the_run_is_a_warning() -> None:
    """It asks for less memory than an earlier one of its kind needed."""
    findings = [
        {"code": "MemoryBelowPeak", "message": "earlier runs peaked at 41Gi"},
        {"code": "MemoryPeak", "message": "earlier runs peaked at 1Gi"},
    ]
    made = view("bert", "Queued", status={"findings": findings})
    result = invoke(FakeWebApi(answers={"POST /v1/runs": (201, made)}), "run", "-d", "bert:3")
    assert result.stderr == "warning: earlier runs peaked at 41Gi\nnote: earlier runs peaked at 1Gi\n"


@pytest.mark.parametrize(
    ("peak", "flags", "said"),
    [
        (60, [], "note: memory peaked at 60Gi of 64Gi\n"),
        (60, ["-q"], ""),
        (30, [], ""),
    ],
)
def test_a_run_that_came_near_its_memory_limit_is_told_so_at_its_end(peak: int, flags: list[str], said: str) -> None:
    """Who has room enough has nothing to hear; kaji describe tells in any case."""
    end = ended(memory={"peakBytes": peak * 2**30, "limitBytes": 2**36})
    assert invoke(story(end, end), "run", *flags, "bert:3").stderr == said


def test_quiet_says_nothing_of_findings() -> None:
    """-q keeps the notes away."""
    made = view("bert", "Queued", status={"findings": [{"code": "X", "message": "y"}]})
    assert invoke(FakeWebApi(answers={"POST /v1/runs": (201, made)}), "run", "-dq", "x").stderr == ""


def test_a_run_is_followed_to_its_end() -> None:
    """stdout is the program's; progress stands on stderr, a line a change; the exit code is the run's."""
    queued = view("bert", "Queued", status={"reason": "WaitingForGPU", "message": "needs 16 h100"})
    starting = view("bert", "Starting", status={"reason": "ImagePull", "message": "pulling"})
    fresh = view("bert", "Queued", status={"reason": "NotPlannedYet"})
    running = view("bert", status={"attempt": {"number": 1, "nodes": "gpu-1"}})
    api = story(ended(), fresh, queued, queued, starting, running, **{f"GET {RUN}/logs": log("epoch 1", "done")})
    result = invoke(api, "run", "registry/bert:3")
    assert result.exit_code == 0
    assert result.stdout == "epoch 1\ndone\n"
    assert result.stderr == (
        "bert: waiting for a place\nbert: waiting for GPUs: needs 16 h100\n"
        "bert: starting (its image): pulling\nbert: running on gpu-1\n"
    )
    (call,) = api.calls_to("GET", "/logs")
    wanted = {"follow": ["true"], "frames": ["true"]}
    assert call.query == wanted | {"fromAttempt": ["1"]}  # also where the first was over before anybody could look


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (ended("Succeeded", exitCode=0), 0, ""),
        (ended("Failed", exitCode=3, reason="ProgramFailed", message="rank 0 ended with 3"), 3, "rank 0 ended with 3"),
        (ended("Failed", exitCode=137, reason="OutOfMemory"), 137, "OutOfMemory"),
        (ended("Failed", exitCode=127, reason="CommandNotFound"), 127, "CommandNotFound"),
        (ended("Failed", reason="CommandNotFound"), 127, "CommandNotFound"),
        (ended("Failed", reason="OutOfMemory"), 137, "OutOfMemory"),
        (ended("Failed", reason="Refused", message="policy changed"), 2, "policy changed"),
        (ended("Failed", reason="NodeLost"), 125, "NodeLost"),
        (ended("Failed", reason="TimeLimit"), 143, "TimeLimit"),
        (ended("Stopped", exitCode=0), 0, "was stopped"),
        (ended("Stopped"), 143, "was stopped"),
    ],
)
def test_exit_codes(end: dict[str, Any], code: int, words: str) -> None:
    """The program's own exit code; what a shell would give where there is none; 125 where the platform failed."""
    result = invoke(story(end, view("bert")), "run", "-q", "x")
    assert result.exit_code == code
    if end["status"]["phase"] == "Failed":
        assert words in result.stderr
        assert "kaji describe bert" in result.stderr


def test_members_are_told_apart() -> None:
    """With several members each line begins with its rank."""
    two = {"replicas": 2}
    lines = [*logged("hello"), *logged("there", rank=1)]
    api = story(view("bert", "Succeeded", spec=two), view("bert", spec=two), **{f"GET {RUN}/logs": lines})
    result = invoke(api, "run", "-n", "2", "x")
    assert result.stdout == "[0] hello\n[1] there\n"
    assert api.calls_to("GET", "/logs")[0].query["allRanks"] == ["true"]


def test_one_rank_alone() -> None:
    """--rank follows one member, without prefixes."""
    two = {"replicas": 2}
    api = story(view("bert", "Succeeded", spec=two), view("bert", spec=two), **{f"GET {RUN}/logs": log("x")})
    assert invoke(api, "run", "-n", "2", "--rank", "1", "x").stdout == "x\n"
    assert api.calls_to("GET", "/logs")[0].query["rank"] == ["1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "1"], "--rank 1: the run has no such member; its only member is 0"),
        (["-n", "2-4", "--rank", "4"], "--rank 4: the run has no such member; ranks are 0 to 3"),
        (["--array", "0-9:3", "--index", "4"], "--index 4: no member of --array 0-9:3 has this number"),
    ],
)
def test_a_member_to_follow_that_will_not_be_there(words: list[str], said: str) -> None:
    """Is named before anything is made."""
    api = FakeWebApi()
    result = invoke(api, "run", *words, "x")
    assert (result.exit_code, result.stderr.splitlines()[0], api.calls) == (2, f"kaji: {said}", [])


def test_a_large_gang_shows_rank_0() -> None:
    """Nobody reads a thousand logs at once unless he asks for it."""
    many = {"replicas": 1000}
    api = story(view("bert", "Succeeded", spec=many), view("bert", spec=many), **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "-n", "1000", "x")
    assert result.stdout == "x\n"
    assert "rank 0 of 1000" in result.stderr
    assert "allRanks" not in api.calls_to("GET", "/logs")[0].query
    result = invoke(api, "run", "--all-ranks", "-n", "1000", "x")
    assert (result.exit_code, result.stdout) == (0, "x\n")
    assert "note: at most 256 logs are merged into one\n" in result.stderr


def test_restarts_are_told_while_the_log_goes_on() -> None:
    """A restart of the gang appears on stderr; the log goes on over it."""
    first = view("bert", status={"attempt": {"number": 1, "nodes": "a"}})
    again = view("bert", "Restarting", status={"reason": "NodeLost", "attempt": {"number": 1}})
    second = view("bert", status={"attempt": {"number": 2, "nodes": "b"}})
    api = story(ended(), first, again, second, **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "x")
    assert result.stderr == "bert: restarting after the loss of a node\nbert: running again on b\n"


def test_what_passes_at_once_is_not_told() -> None:
    """A run that is queued and started within a moment gets no line; a restart always does."""
    fresh = view("bert", "Queued", status={"reason": "NotPlannedYet"})
    starting = view("bert", "Starting", status={"reason": "Creating", "message": "1 member not running yet"})
    running = view("bert", status={"attempt": {"number": 1, "nodes": "a"}})
    failed = {"reason": "ProgramFailed", "message": "member 0: exit code 3", "restarts": 1}
    again = view("bert", "Restarting", status=failed)
    views = (fresh, starting, running, again, starting, again, starting, running)
    api = story(ended(), *views, **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "x", settle_seconds=3600.0)
    assert result.stderr.splitlines() == [
        "bert: restarting (1 of 3): member 0: exit code 3",
        "note: a program that fails is started again; with --restarts 0 it is not",
        "bert: running again on a",
    ]


@pytest.mark.parametrize(
    ("spec", "findings", "allowed"),
    [
        ({"restarts": 2}, [], " of 2"),
        ({}, [{"code": "RestartsDefaulted", "message": "5 restarts"}], " of 5"),
        ({}, [], ""),
    ],
)
def test_each_restart_after_a_failure_is_counted(spec: dict[str, Any], findings: list[Any], allowed: str) -> None:
    """Also where the program fails too fast to be seen running; how to switch it off is said once."""
    status = {"reason": "ProgramFailed", "message": "member 0: exit code 3", "findings": findings}
    views = [
        view("bert", "Restarting", spec={"restarts": None} | spec, status=status | {"restarts": n}) for n in (1, 2)
    ]
    api = story(ended("Failed", exitCode=3, reason="ProgramFailed"), *views, **{f"GET {RUN}/logs": log("x")})
    said = invoke(api, "run", "x").stderr.splitlines()
    lines = [line for line in said if not line.startswith("note: defaults")]
    assert lines[:3] == [
        f"bert: restarting (1{allowed}): member 0: exit code 3",
        "note: a program that fails is started again; with --restarts 0 it is not",
        f"bert: restarting (2{allowed}): member 0: exit code 3",
    ]
    assert "--restarts" not in "".join(lines[3:])


def test_a_failed_start_is_told_again_only_with_other_words() -> None:
    """Starts that fail in turn, each the same way, say it once; when they go on failing, the way out is told."""
    starting = view("bert", "Starting", status={"reason": "Creating"})
    paused = [
        view("bert", "Queued", status={"reason": "ImagePull", "message": f"{why}; tried again", "failedStarts": count})
        for count, why in enumerate(("no image", "no image", "bad image", "bad image"), start=1)
    ]
    views = [each for pause in paused for each in (starting, pause)]
    api = story(ended("Stopped"), *views)
    result = invoke(api, "run", "x")
    assert result.stderr == (
        "bert: starting\nbert: waiting after a failed start (its image): no image; tried again\n"
        "bert: waiting after a failed start (its image): bad image; tried again; "
        "if it can't be mended: kaji stop bert\nkaji: bert was stopped\n"
    )


def test_a_run_that_never_started_has_no_log() -> None:
    """What failed before any attempt is told without asking for a log."""
    end = view("bert", "Failed", status={"reason": "Refused", "attempts": 0})
    api = story(end, view("bert", "Queued"))
    assert invoke(api, "run", "x").exit_code == 2
    assert api.calls_to("GET", "/logs") == []


def test_connections_may_break() -> None:
    """A watch and a log that break in the middle go on: no line twice, none lost."""
    api = story(ended(), view("bert"))
    api.queues[f"GET {RUN}/watch"] = [
        cut_after(*ndjson([view("bert", "Queued")]), b'{"na'),
        problem(503, "Unavailable", "busy"),
    ]
    api.queues[f"GET {RUN}/logs"] = [
        cut_after(*logged("a", "b"), *logged("half of", end=""), frame("a line that is not whole")[:-4]),
        problem(500, "Internal", "something failed that should not; this is a bug in Kajitori"),
        [frame(" a line\n"), *logged("d")],
    ]
    result = invoke(api, "run", "x")
    assert result.exit_code == 0, result.output
    assert result.stdout == "a\nb\nhalf of a line\nd\n"
    assert [call.query.get("resume") for call in api.calls_to("GET", "/logs")] == [None, *[["0.1.half of"]] * 2]
    assert "bug" not in result.stderr


def test_a_server_that_stays_away_is_the_platforms_failure() -> None:
    """After some minutes of trying: 125, and the way out."""
    api = story(ended(), view("bert", "Queued"))
    api.answers[f"GET {RUN}/watch"] = problem(503, "Unavailable", "no API server")
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert "no API server" in result.stderr
    assert sum(api.naps) == pytest.approx(120)
    words = f"no API server; it is tried again until {clock_in(120)}, and the run itself goes on"
    assert result.stderr.count(words) == 1


def test_log_and_watch_that_lose_one_server_say_it_once() -> None:
    """Two threads talk to it."""
    api = story(ended(), view("bert"))
    away = problem(503, "Unavailable", "no API server")
    for path, answer in (("watch", ndjson([view("bert")])), ("logs", cut_after(*logged("a")))):
        api.queues[f"GET {RUN}/{path}"] = [answer, *[away] * 6]
    api.answers[f"GET {RUN}/logs"] = logged("b")
    result = invoke(api, "run", "x")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert [result.stderr.count(words) for words in ("no API server; it is tried", "answers again")] == [1, 1]


def test_a_run_that_is_deleted_meanwhile() -> None:
    """It is said, and is no success."""
    api = FakeWebApi(answers={"POST /v1/runs": (201, view("bert", "Queued"))})
    api.answers[f"GET {RUN}/watch"] = ndjson([view("bert", "Running")])
    api.answers[f"GET {RUN}"] = problem(404, "NotFound", "there is no run 'bert'", hint="see them all: kaji ps -a")
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert result.stderr.endswith("kaji: bert was deleted\n      see them all: kaji ps -a\n")


def test_rm_deletes_after_the_end() -> None:
    """--rm takes the run away once its exit code is known."""
    api = story(ended("Failed", exitCode=4, reason="ProgramFailed"), view("bert"))
    assert invoke(api, "run", "--rm", "x").exit_code == 4
    assert [call.path for call in api.calls_to("DELETE")] == [RUN]


def test_rm_is_the_clusters_to_do() -> None:
    """It holds with -d, too, and if the command that follows is killed; a run that is gone already is no error."""
    api = story(ended("Succeeded"), view("bert"))
    api.answers[f"DELETE {RUN}"] = problem(404, "NotFound", "there is no run 'bert'")
    assert invoke(api, "run", "--rm", "x").exit_code == 0
    assert invoke(api, "run", "-d", "--rm", "x").exit_code == 0
    assert [call.body["spec"]["removeAfter"] for call in api.calls_to("POST", "/v1/runs")] == ["10m", "10s"]


def test_a_refusal_names_every_reason_in_the_users_words() -> None:
    """What policy refuses ends with 2, every reason at once, each with its way out; options instead of spec fields."""
    faults = [
        {"field": "spec.resources.gpuType", "message": "there is no GPU type h1000", "hint": "known: a100, h100"},
        {"field": "spec.volumes[0].hostPath", "message": "/etc may not be mounted", "hint": "ask the operators"},
    ]
    api = FakeWebApi(answers={"POST /v1/runs": problem(422, "Refused", "2 reasons", faults=faults)})
    result = invoke(api, "run", "--gpus", "1", "--gpu-type", "h1000", "-v", "/etc:/e", "x")
    assert result.exit_code == 2
    assert result.stderr == (
        "kaji: refused, for 2 reasons:\n"
        "  --gpu-type: there is no GPU type h1000\n"
        "      known: a100, h100\n"
        "  --volume /etc:/e: /etc may not be mounted\n"
        "      ask the operators\n"
    )


def wrong_besides(call: Any) -> Any:
    """A server that names the spec's faults, as it does, and has something against a volume."""
    try:
        parse_spec(call.body["spec"])
    except InvalidInput as error:
        faults = [{"field": fault.field, "message": fault.message, "hint": fault.hint} for fault in error.faults]
    ghost = {"field": "spec.volumes[1].name", "message": "there is no volume 'ghost'", "hint": "known: data"}
    return problem(422, "Invalid", "wrong", faults=[*faults, ghost])


@pytest.mark.parametrize("flags", [(), ("--dry-run",), ("-d",)])
def test_faults_of_words_spec_and_policy_are_one_refusal(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The server is asked what else is wrong, of everything that could be read, and is asked to make nothing. What it
    says about words that could not be read is not said twice."""
    api = FakeWebApi(answers={"POST /v1/runs": wrong_besides})
    words = ["--env-file", str(tmp_path / "no.env"), "-m", "lots", "-n", "two", "-v", "here", "-v", "ghost:/d"]
    result = invoke(api, "run", *flags, *words, "--priority", "urgent", "-p", "http", "x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "kaji: this can't be done, for 7 reasons:",
        "  --publish: 'http' is not a port",
        "      name the port the program listens on: -p 8888",
        "  --replicas: 'two' is not a whole number",
        "      write a number, such as 3, or a range, such as 8-32",
        "  --memory: 'lots' is not a size",
        "      write a number with a unit, for example 64g or 512m",
        f"  --env-file: {tmp_path}/no.env can't be read: No such file or directory",
        "      check the path",
        "  --volume: 'here' does not say what is mounted where",
        "      write SOURCE:PATH, such as -v imagenet:/data:ro or -v $PWD:$PWD",
        "  --priority: 'urgent' is not one of high, normal, low",
        "      known: high, low, normal",
        "  --volume ghost:/d: there is no volume 'ghost'",
        "      known: data",
    ]
    (call,) = api.calls
    assert call.query == {"dryRun": ["true"]}
    assert call.body["spec"]["volumes"] == ["here", {"path": "/d", "name": "ghost"}]


def test_faults_are_named_without_a_server_too(tmp_path: Path) -> None:
    """None is known, or none answers: what can be seen without one is said, at once."""

    def away(call: Any) -> Any:
        raise NotReached("refused")

    api = FakeWebApi(answers={"POST /v1/runs": away})
    for more in ({}, {"target": None, "runtime_dir": tmp_path}):
        cli = cli_of(api)
        for name, value in more.items():
            setattr(cli, name, value)
        result = CliRunner().invoke(kaji, ["run", "-m", "lots", "--type", "job", "x"], obj=cli)
        assert result.exit_code == 2
        assert [line for line in result.stderr.splitlines() if line.startswith("  --")] == [
            "  --memory: 'lots' is not a size",
            "  --type: 'job' is not one of batch, service",
        ]
    assert (len(api.calls), api.naps) == (1, [])


def test_a_server_that_finds_nothing_else_changes_nothing() -> None:
    """What could not be read here is a fault, whatever the server thinks of the rest."""
    api = FakeWebApi(answers={"POST /v1/runs": ANSWER})
    result = invoke(api, "run", "-d", "-it", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kaji: -it: a run has no terminal of its own yet\n")


def test_no_image_is_one_fault(tmp_path: Path) -> None:
    """Whoever says nothing is told once what is missing, with a server or without."""
    answer = problem(422, "Invalid", "wrong", faults=[{"field": "spec.image", "message": "is required"}])
    for api in (FakeWebApi(answers={"POST /v1/runs": answer}), FakeWebApi(answers={"POST /v1/runs": (503, {})})):
        result = invoke(api, "run")
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == "kaji: IMAGE: is required"


def test_a_file_that_cannot_be_read_hides_no_other_fault(tmp_path: Path) -> None:
    """The other words' own faults are named with it. Nothing is said of what the file may hold, nobody is asked."""
    api = FakeWebApi()
    result = invoke(api, "run", "-f", str(tmp_path / "no.yaml"), "--gpu-type", "h100", "-m", "lots", "--grace", "long")
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stderr.splitlines()[1::2]] == ["  --file", "  --memory", "  --grace"]
    assert api.calls == []


def test_a_taken_name() -> None:
    """409 is the user's to solve: exit code 2."""
    api = FakeWebApi(answers={"POST /v1/runs": problem(409, "AlreadyExists", "bert exists", hint="kaji rm bert")})
    result = invoke(api, "run", "--name", "bert", "x")
    assert (result.exit_code, result.stderr) == (2, "kaji: bert exists\n      kaji rm bert\n")


ANSWER = {
    "run": view("bert", "Queued", spec={"resources": {"gpu": 8, "gpuType": "h100"}}),
    "manifests": [{"kind": "Pod", "metadata": {"name": "bert-1-0"}}, {"kind": "Service"}],
    "findings": [{"code": "DefaultMemory", "message": "memory is 2Gi, the default"}],
    "start": {"message": "nothing fits now"},
}


def test_a_dry_run_makes_nothing() -> None:
    """Manifests, findings and when it could start; the server is asked to make nothing."""
    api = FakeWebApi(answers={"POST /v1/runs": ANSWER})
    result = invoke(api, "run", "--dry-run", "--gpus", "8", "--gpu-type", "h100", "x")
    assert api.calls[0].query == {"dryRun": ["true"]}
    assert len(api.calls) == 1
    assert "note: memory is 2Gi, the default" in result.stderr
    assert (
        "Takes 8 h100.\nWould make 1 Pod, 1 Service; see them with -o yaml.\nStart: nothing fits now\n" in result.stdout
    )
    any_type = ANSWER | {"run": view("bert", "Queued", spec={"replicas": 3, "resources": {"gpu": 8}})}
    said = invoke(FakeWebApi(answers={"POST /v1/runs": any_type}), "run", "--dry-run", "--gpus", "8", "x").stdout
    assert "Takes 24 GPUs.\n" in said
    assert yaml.safe_load(invoke(api, "run", "--dry-run", "-o", "yaml", "x").stdout) == ANSWER
    assert json.loads(invoke(api, "run", "--dry-run", "-o", "json", "x").stdout) == ANSWER


def test_a_manifest_from_a_file_and_from_stdin(tmp_path: Path) -> None:
    """-f reads a file, or stdin for `-`."""
    text = "kind: Run\napiVersion: kajitori.dev/v1alpha1\nmetadata: {name: gpt, namespace: nlp}\nspec: {image: x}\n"
    file = tmp_path / "run.yaml"
    file.write_text(text)
    for args, stdin in ((["-f", str(file)], None), (["-f", "-"], text)):
        api = FakeWebApi(answers={"POST /v1/runs": (201, view("gpt"))})
        assert invoke(api, "run", "-d", *args, stdin=stdin).exit_code == 0
        assert api.calls[0].body == {"name": "gpt", "namespace": "nlp", "spec": {"image": "x"}}


def test_wrong_usage() -> None:
    """What cannot be meant is refused with 2 before a server is asked."""
    api = FakeWebApi()
    for args in (["-o", "json", "x"], ["--rank", "1", "--all-ranks", "x"], ["--nope", "x"], ["-n"]):
        result = invoke(api, "run", *args)
        assert result.exit_code == 2, args
        assert result.stderr.startswith("kaji: "), args
    assert api.calls == []


def test_a_submission_without_an_answer_is_not_repeated() -> None:
    """Whether the run was made is not known: it is said, and not tried a second time."""

    def lose(call: Any) -> Any:
        raise Lost("gone")

    api = FakeWebApi(answers={"POST /v1/runs": lose})
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert "kaji ps -a" in result.stderr
    assert len(api.calls) == 1
