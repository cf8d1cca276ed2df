"""The output of `kaji events`, `kaji describe`, `kaji policy show` and `kaji version`."""

from __future__ import annotations

import json

import yaml
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, cut_after, invoke, ndjson, printed, view

EVENTS = [
    {
        "time": "2026-11-21T11:00:00Z",
        "type": "Normal",
        "reason": "Planned",
        "object": "Run/gpt",
        "message": "attempt 1 on\n2 nodes",
        "count": 1,
    },
    {
        "time": "2026-11-21T11:58:59Z",
        "type": "Warning",
        "reason": "NodeLost",
        "object": "Pod/gpt-1-0",
        "message": "gone",
        "count": 3,
    },
]


def test_events_of_a_run_are_listed_oldest_first() -> None:
    """A message is on one line, with its count."""
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/gpt/events": ndjson(EVENTS)})
    assert printed(invoke(api, "events", "gpt").stdout) == [
        "AGE              TYPE      REASON     OBJECT        MESSAGE",
        "About an hour    Normal    Planned    Run/gpt       attempt 1 on 2 nodes",
        "About a minute   Warning   NodeLost   Pod/gpt-1-0   gone (×3)",
    ]
    assert json.loads(invoke(api, "events", "gpt", "-o", "json").stdout) == {"items": EVENTS}
    followed = invoke(api, "events", "-f", "gpt", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS
    assert api.calls[-1].query == {"follow": ["true"]}


def test_events_without_a_run_are_those_of_the_namespace() -> None:
    """The newest are last; by default the last hundred are shown."""
    newest_first = {"items": EVENTS[::-1]}
    api = FakeWebApi(answers={"GET /v1/events": newest_first, "GET /v1/events/watch": lambda _: ndjson(EVENTS)})
    assert json.loads(invoke(api, "events", "-o", "json").stdout) == {"items": EVENTS}
    assert api.calls[-1].query == {"namespace": ["vision"], "limit": ["100"]}
    assert printed(invoke(api, "events", "-N", "nlp", "--tail", "all").stdout)[1].endswith("attempt 1 on 2 nodes")
    assert api.calls[-1].query == {"namespace": ["nlp"], "limit": ["500"]}
    followed = invoke(api, "events", "-f", "-n", "0", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS
    assert api.calls[-1].query == {"namespace": ["vision"], "limit": ["0"]}
    refused = invoke(api, "events", "-f", "-n", "5000")
    assert (refused.exit_code, "at most 1000 with -f" in refused.stderr) == (2, True)


def test_events_of_all_namespaces_are_one_table() -> None:
    """It has a column for the namespace, and says of how many namespaces the server leaves the events out."""
    newest_first = [event | {"namespace": name} for event, name in zip(EVENTS[::-1], ("nlp", "vision"), strict=True)]
    pages = {"": {"items": newest_first[:1], "continue": "2", "leftOut": 3}, "2": {"items": newest_first[1:]}}
    api = FakeWebApi(answers={"GET /v1/events": lambda call: pages[call.query.get("continue", [""])[0]]})
    shown = invoke(api, "events", "-A")
    assert printed(shown.stdout) == [
        "NAMESPACE   AGE              TYPE      REASON     OBJECT        MESSAGE",
        "vision      About an hour    Normal    Planned    Run/gpt       attempt 1 on 2 nodes",
        "nlp         About a minute   Warning   NodeLost   Pod/gpt-1-0   gone (×3)",
    ]
    assert "3 namespaces are left out" in shown.stderr and "kaji events -N NAME" in shown.stderr
    assert [call.query for call in api.calls_to("GET", "/v1/events")] == [
        {"everywhere": ["true"], "limit": ["100"]},
        {"everywhere": ["true"], "limit": ["99"], "continue": ["2"]},
    ]
    for words in (("gpt",), ("-N", "nlp"), ("-f",)):
        refused = invoke(api, "events", "-A", *words)
        assert (refused.exit_code, "exclude each other" in refused.stderr) == (2, True)


def test_tail_shows_only_the_last_events_of_a_run() -> None:
    """With -f, too."""
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/gpt/events": lambda _: ndjson(EVENTS)})
    assert json.loads(invoke(api, "events", "-n", "1", "gpt", "-o", "json").stdout) == {"items": EVENTS[1:]}
    assert json.loads(invoke(api, "events", "-f", "-n", "1", "gpt", "-o", "json").stdout) == EVENTS[1]
    wrong = invoke(api, "events", "-n", "few", "gpt")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, "kaji: --tail: 'few' is not a number of lines")


def test_followed_events_continue_after_a_broken_connection() -> None:
    """None is shown twice."""
    path = "GET /v1/runs/vision/gpt/events"
    api = FakeWebApi(RUNS, queues={path: [cut_after(*ndjson(EVENTS[:1]), b'{"ti'), ndjson(EVENTS)]})
    followed = invoke(api, "events", "-f", "gpt", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS


def test_describe_distinguishes_ending_and_ended_members() -> None:
    """Members that were told to end are "ending", not running."""
    counts = {"total": 3, "running": 2, "failed": 1}
    begun = {"startedAt": "2026-11-21T10:30:00Z", "members": counts}
    member = {"rank": 0, "attempt": 1, "pod": "gpt-1-0", "node": "gpu-1"}
    members = [
        member | {"phase": "Running", "terminating": True},
        member | {"rank": 1, "phase": "Failed", "terminating": True, "exitCode": 3},
        member | {"rank": 2, "phase": "Running", "terminating": False},
    ]
    events = {"GET /v1/runs/vision/gpt/events": ndjson([])}
    api = FakeWebApi(
        [view("gpt", "Restarting", status=begun)],
        answers={"GET /v1/runs/vision/gpt/members": {"items": members}} | events,
    )
    shown = printed(invoke(api, "describe", "gpt").stdout)
    assert "Members: 3 (2 running, 1 failed)" in shown
    assert [line.split()[4] for line in shown if "gpt-1-0" in line] == ["Ending", "Failed", "Running"]
    for left, expected in (
        (counts, "Members: 3 (2 ending, 1 failed)"),
        ({"total": 3, "failed": 1}, "Members: 3 (1 failed, 2 ended)"),
    ):
        api = FakeWebApi([view("gpt", "Failed", status=begun | {"members": left})], answers=events)
        assert expected in printed(invoke(api, "describe", "gpt").stdout)
    created = view("gpt", "Stopped", status={"reason": "NotStarted", "finishedAt": "2026-11-21T11:30:00Z"})
    shown = printed(invoke(FakeWebApi([created], answers=events), "describe", "gpt").stdout)
    assert not any(line.startswith("Ended") for line in shown), "it was never started"
    never_began = view("gpt", "Failed", status={"members": {"total": 3}})
    assert "Members: 3" in printed(invoke(FakeWebApi([never_began], answers=events), "describe", "gpt").stdout)


def test_describe_of_a_sweep_shows_no_attempt_numbers() -> None:
    """They only count how often some of its members were started."""
    note = {
        "rank": 7,
        "attempt": 31,
        "node": "gpu-7",
        "reason": "ProgramFailed",
        "exitCode": 1,
        "message": "exit code 1",
    }
    status = {
        "attempt": {"number": 56, "nodes": "gpu-1"},
        "members": {"total": 100, "running": 2, "succeeded": 40, "failed": 1},
        "notable": [note],
        "memory": {"peakBytes": 2**30, "limitBytes": 2**31, "rank": 7, "attempt": 31, "node": "gpu-7"},
    }
    swept = view("gpt", "Running", spec={"array": "0-99%2"}, status=status, nodes="gpu-[1,7]")
    api = FakeWebApi([swept], answers={"GET /v1/runs/vision/gpt/events": ndjson([])})
    shown = printed(invoke(api, "describe", "gpt").stdout)
    assert not [line for line in shown if "ttempt" in line or "56" in line or "31" in line]
    assert "Nodes      gpu-[1,7]" in shown
    assert "Memory     peak 1Gi of 2Gi (member 7) on gpu-7" in shown
    assert "Members: 100 (2 running, 40 succeeded, 1 failed)" in shown
    where = shown.index("Worth a look")
    assert [line.split()[:4] for line in shown[where + 1 : where + 3]] == [
        ["INDEX", "NODE", "REASON", "EXIT"],
        ["7", "gpu-7", "ProgramFailed", "1"],
    ]


def test_describe_shows_all_sections() -> None:
    """State, what was requested in Docker's words, members, findings, and Events."""
    run = view(
        "gpt",
        "Running",
        labels={"team": "x"},
        spec={
            "replicas": 2,
            "launcher": "torchrun",
            "resources": {"gpu": 8, "gpuType": "h100", "memory": "64Gi"},
            "env": {"LR": "3e-4"},
            "volumes": [{"name": "imagenet", "path": "/data", "readOnly": True}],
            "secrets": [{"name": "hub", "key": "token", "env": "TOKEN"}],
            "checkpoint": {"path": "/ckpt", "size": "100Gi"},
            "args": ["python", "train it.py"],
        },
        status={
            "restarts": 1,
            "interruptions": 2,
            "startedAt": "2026-11-21T10:30:00Z",
            "attempt": {"number": 4, "nodes": "gpu-[1-2]"},
            "members": {"total": 2, "running": 2},
            "notable": [{"rank": 1, "attempt": 3, "node": "gpu-7", "reason": "ProgramFailed", "exitCode": 1}],
            "findings": [{"code": "QosGuaranteed", "message": "requests are limits"}],
            "avoidNodes": {"gpu-7": 2, "gpu-8": 1},
            "memory": {
                "peakBytes": 41 * 2**30,
                "limitBytes": 2**36,
                "rank": 1,
                "attempt": 3,
                "node": "gpu-7",
                "at": "2026-11-21T11:00:00Z",
                "totalBytes": 80 * 2**30,
            },
        },
    )
    member = {"attempt": 4, "phase": "Running", "address": "10.1.2.3", "startedAt": "2026-11-21T11:00:00Z"}
    members = [{"rank": rank, "pod": f"gpt-4-{rank}", "node": f"gpu-{rank + 1}", **member} for rank in (0, 1)]
    answers = {"GET /v1/runs/vision/gpt/events": ndjson(EVENTS), "GET /v1/runs/vision/gpt/members": {"items": members}}
    answers["GET /v1/runs/vision/gpt/expected"] = {
        "seconds": 2700,
        "expectedFrom": "limit",
        "sure": True,
        "goesOn": True,
        "endsAt": "2026-11-21T12:45:00Z",
    }
    api = FakeWebApi([run], answers=answers)
    result = invoke(api, "describe", "gpt")
    assert printed(result.stdout) == [
        "Name       gpt",
        "Namespace  vision",
        "Owner      alice",
        "Labels     team=x",
        "Status     Running",
        "Created    2 hours ago",
        "Runs       2 hours",
        "Expected   at most 45 minutes more: its time limit; no comparable run has ended yet",
        "Restarts   1/3; 2 interruptions not counted",
        "Attempt    4",
        "Nodes      gpu-[1-2]",
        "Avoids     gpu-7 (2 failures)",
        "GPUs       16 h100",
        "Memory     peak 41Gi of 64Gi (rank 1) in attempt 3 on gpu-7, About an hour ago; 80Gi of all members together",
        "Asked for  kaji run --name gpt -n 2 --gpus 8 --gpu-type h100 -m 64g --launcher torchrun --restarts 3"
        " -e LR=3e-4 -v imagenet:/data:ro --secret TOKEN=hub/token --checkpoint /ckpt:100Gi registry/bert:3"
        " python 'train it.py'",
        "",
        "Members: 2 (2 running)",
        "  RANK   ATTEMPT   POD       NODE    STATUS    ADDRESS    SINCE           REASON",
        "     0         4   gpt-4-0   gpu-1   Running   10.1.2.3   About an hour",
        "     1         4   gpt-4-1   gpu-2   Running   10.1.2.3   About an hour",
        "",
        "Worth a look",
        "  RANK   ATTEMPT   NODE    REASON          EXIT   SINCE   MESSAGE",
        "     1         3   gpu-7   ProgramFailed      1",
        "",
        "What policy did",
        "  QosGuaranteed  requests are limits",
        "",
        "Last events",
        "  AGE              TYPE      REASON     OBJECT        MESSAGE",
        "  About an hour    Normal    Planned    Run/gpt       attempt 1 on 2 nodes",
        "  About a minute   Warning   NodeLost   Pod/gpt-1-0   gone (×3)",
    ]
    assert json.loads(invoke(api, "describe", "gpt", "-o", "json").stdout) == run
    run["status"] |= {"phase": "Queued", "queuedAt": "2026-11-21T11:59:00Z"}
    waits = printed(invoke(FakeWebApi([run], answers=answers), "describe", "gpt").stdout)
    assert {"Last nodes    gpu-[1-2]", "Last attempt  4", "Waiting       About a minute"} <= set(waits)
    assert not [line for line in waits if line.startswith("Runs")], "it does not run now"


def test_escape_sequences_are_removed_from_describe() -> None:
    run = view("gpt", status={"notable": [{"rank": 0, "message": "\x1b]0;evil\x07 and\x1b[2J"}]})
    assert "\x1b" not in invoke(FakeWebApi([run]), "describe", "gpt").stdout


def test_policy_show_prints_the_policy_in_force_as_yaml() -> None:
    """stderr says why a newer file is not in force."""
    answer = {"path": "/p.yaml", "version": 2, "policy": {"defaults": {"cpu": "1"}}}
    answer["faults"] = [{"field": "defaults.memry", "message": "there is no field 'memry'"}]
    result = invoke(FakeWebApi(answers={"GET /v1/policy": answer}), "policy", "show")
    assert yaml.safe_load(result.stdout) == {"defaults": {"cpu": "1"}}
    assert "/p.yaml is faulty" in result.stderr
    assert "defaults.memry" in result.stderr
    more = {"path": "/p.yaml", "version": 3, "policy": {}, "faults": [], "findings": ["96 h100 are guaranteed"]}
    assert (
        "note: 96 h100 are guaranteed" in invoke(FakeWebApi(answers={"GET /v1/policy": more}), "policy", "show").stderr
    )
    without = {"path": "", "version": 1, "policy": {}, "faults": []}
    assert "There is no policy file" in invoke(FakeWebApi(answers={"GET /v1/policy": without}), "policy", "show").stderr


def test_policy_check_against_the_cluster() -> None:
    """Faults on stderr with field and way out, and exit code 2; notes alone are no fault."""
    fault = {"field": "checkpoint.storageClass", "message": "the cluster has no StorageClass x", "hint": "create it"}
    answer = {"namespace": "team", "faults": [fault], "notes": ["gpu.types: none"]}
    result = invoke(FakeWebApi(answers={"GET /v1/policy/cluster": answer}), "policy", "check", "--live")
    assert result.exit_code == 2
    assert printed(result.stderr)[:3] == [
        "kaji: The policy in force names one thing that the cluster lacks (looked in namespace team):",
        "  checkpoint.storageClass: the cluster has no StorageClass x",
        "      create it",
    ]
    fine = FakeWebApi(answers={"GET /v1/policy/cluster": answer | {"faults": []}})
    result = invoke(fine, "policy", "check", "--live", "-N", "vision")
    assert "note: gpu.types: none" in result.stderr and "nothing that it names" in result.stdout
    assert fine.calls[-1].query == {"namespace": ["vision"]}
    assert "name a policy file" in invoke(fine, "policy", "check").stderr


def test_version_shows_client_server_and_user() -> None:
    answers = {"GET /v1/version": {"version": "0.1.0", "kubernetes": "v1.36.2", "user": "alice"}}
    result = invoke(FakeWebApi(answers=answers), "version", "-o", "json")
    document = json.loads(result.stdout)
    assert document["server"] == {
        "url": "http://kaji.test",
        "version": "0.1.0",
        "kubernetes": "v1.36.2",
        "user": "alice",
    }
    assert document["client"]["version"]


def test_describe_shows_the_reason_of_the_last_interruption() -> None:
    """This holds when the run is running again."""
    words = "preempted by nlp/gpt (high, of bob)"
    setback = {"reason": "Preempted", "message": words, "attempt": 2, "at": "2026-11-21T11:00:00Z"}
    api = FakeWebApi([view("gpt", status={"interruptions": 1, "setback": setback})])
    lines = printed(invoke(api, "describe", "gpt").stdout)
    assert f"Interrupted  About an hour ago, attempt 2: Preempted, {words}" in lines
