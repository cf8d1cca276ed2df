"""Runs as containers: states, exit codes, ids, lists and filters."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from typing import Any

import pytest

from kajitori.docker.as_user import as_user
from kajitori.docker.events import EventLog, actions, passes
from kajitori.docker.execution import Command
from kajitori.docker.hijack import frame
from kajitori.docker.routes.files import file_stat
from kajitori.docker.server import check_version
from kajitori.docker.translation.container import ANNOTATION, Container, network_id, seconds_of, split_rank
from kajitori.docker.translation.creation import renamed
from kajitori.docker.translation.filters import CONTAINER_FILTERS, matching, parse_filters
from kajitori.docker.translation.inspection import inspection, mounts, state, status_words, summary
from kajitori.docker.translation.stats import Meter
from kajitori.docker.translation.update import read_update
from kajitori.errors import InvalidInput

NOTES = {"Name": "my_web", "Config": {"Labels": {"a": "b"}}, "HostConfig": {"AutoRemove": True}}


def container(
    phase: str = "Running", *, notes: dict[str, Any] | None = None, uid: str = "u1", **fields: Any
) -> Container:
    status = {"phase": phase, "attempts": 1, "startedAt": "2026-11-23T20:00:00Z"} | fields.pop("status", {})
    spec = {"image": "alpine", "command": [], "args": ["sleep", "9"], "resources": {"cpu": "500m", "memory": "1Gi"}}
    view = {
        "name": "web",
        "namespace": "default",
        "uid": uid,
        "labels": {},
        "createdAt": "2026-11-23T19:59:00Z",
        "spec": spec | {"stopped": False, "resumes": 1} | fields.pop("spec", {}),
        "status": {"resumes": 1} | status,
        "annotations": {ANNOTATION: json.dumps(NOTES if notes is None else notes)},
    }
    return Container(view | fields)


NEVER_STARTED: dict[str, Any] = {"spec": {"stopped": True, "resumes": 0}, "status": {"attempts": 0, "startedAt": ""}}


@pytest.mark.parametrize(
    ("phase", "more", "word", "code", "active"),
    [
        ("Stopped", NEVER_STARTED, "created", 0, False),
        ("Queued", {}, "created", 0, True),
        ("Running", {}, "running", 0, True),
        ("Restarting", {}, "restarting", 0, True),
        ("Starting", {"status": {"restarts": 1}}, "restarting", 0, True),
        ("Succeeded", {}, "exited", 0, False),
        ("Failed", {"status": {"exitCode": 3}}, "exited", 3, False),
        ("Failed", {"status": {"reason": "OutOfMemory"}}, "exited", 137, False),
        ("Stopped", {}, "exited", 143, False),
        ("Stopped", {"status": {"exitCode": 3}}, "exited", 3, False),
        ("Stopped", {"spec": {"stopGrace": "0s"}, "status": {"exitCode": 143}}, "exited", 137, False),
        ("Stopped", {"spec": {"resumes": 2}}, "created", 0, True),
    ],
)
def test_phases_of_runs_are_states_of_containers(
    phase: str, more: dict[str, Any], word: str, code: int, active: bool
) -> None:
    found = container(phase, **more)
    assert (found.state, found.exit_code, found.is_active) == (word, code, active)
    assert state(found)["Status"] == word


def test_a_container_that_restarts_tells_its_last_exit_code_and_the_number_of_restarts() -> None:
    """Both were 0 for a service, and the exit code was 0 for every container."""
    ends = [{"rank": 1, "exitCode": 9, "attempt": 2}, {"rank": 0, "exitCode": 4, "attempt": 1}, {"rank": 0}]
    failed = container("Restarting", status={"restarts": 2, "notable": ends})
    assert (failed.last_exit_code, container("Restarting").last_exit_code) == (4, None)
    assert inspection(failed, [])["RestartCount"] == 2
    assert inspection(failed, [])["State"]["ExitCode"] == 4
    member = {"rank": 0, "restarts": 3, "lastExitCode": 7, "pod": "a-1-0", "address": "", "phase": "Pending"}
    waiting = inspection(container("Restarting", spec={"type": "service"}), [member])
    assert (waiting["RestartCount"], waiting["State"]["ExitCode"]) == (3, 7)
    assert inspection(container("Running"), [member])["State"]["ExitCode"] == 0, "as Docker's, once it runs again"


def test_mounts_of_folders_are_private_as_dockers_are() -> None:
    """Clients read it: docker-py's tests of folders failed."""
    used = [{"path": "/a", "hostPath": "/data"}, {"path": "/b", "name": "scratch", "readOnly": True}]
    found = mounts(container("Running", spec={"volumes": used}))
    assert [(one["Type"], one["Source"], one["RW"], one["Propagation"]) for one in found] == [
        ("bind", "/data", True, "rprivate"),
        ("volume", "scratch", False, ""),
    ]


@pytest.mark.parametrize(
    ("phase", "reason", "could_not_start", "was_ended_by_others"),
    [
        ("Failed", "CommandNotFound", True, True),
        ("Failed", "RunsAsRoot", True, True),
        ("Failed", "OutOfMemory", False, True),
        ("Failed", "TimeLimit", False, True),
        ("Failed", "ProgramFailed", False, False),
        ("Failed", "AReasonOfNextYear", False, False),
        ("Stopped", "StoppedByUser", False, False),
        ("Starting", "ImagePull", False, False),
        ("Succeeded", "", False, False),
    ],
)
def test_why_a_container_ended(phase: str, reason: str, could_not_start: bool, was_ended_by_others: bool) -> None:
    found = container(phase, status={"reason": reason})
    assert (found.could_not_start, found.was_ended_by_others) == (could_not_start, was_ended_by_others)


def test_an_id_follows_from_the_uid_alone() -> None:
    assert len(container().id) == 64
    assert container().id == container("Failed").id != container(uid="u2").id


def test_a_rank_is_named_behind_a_dot() -> None:
    assert split_rank("bert.3") == ("bert", 3)
    assert split_rank("my.web") == ("my.web", None)


def test_a_list_shows_what_a_run_waits_for() -> None:
    queued = container("Queued", status={"message": "waits for 8 GPUs"})
    assert status_words(queued, 0.0) == "Queued: waits for 8 GPUs"
    refused = container(
        "Starting", status={"message": 'member 0: pulling image "x": ' + "lookup of the registry, " * 20}
    )
    assert status_words(refused, 0.0).startswith('Starting: member 0: pulling image "x": lookup')
    assert len(status_words(refused, 0.0)) < 100, "the table could not be read"
    shown = summary(container("Failed", status={"exitCode": 3, "finishedAt": "2026-11-23T20:00:00Z"}), 1_795_464_120.0)
    assert (shown["Names"], shown["Command"]) == (["/my_web"], "sleep 9")
    assert shown["Status"].startswith("Exited (3) ")


def test_a_member_of_a_gang_keeps_its_rank_in_the_id_that_clients_use_next() -> None:
    """`docker logs bert.3` inspects the name, then asks for the log by the answer's id. It once showed rank 0."""
    gang = container(spec={"replicas": 4})
    id = inspection(Container(gang.view, 3), [])["Id"]
    assert split_rank(id) == (gang.id, 3)
    assert inspection(gang, [])["Id"] == gang.id


def test_an_inspected_container_shows_its_limits() -> None:
    shown = inspection(
        container(spec={"env": {"A": "b"}, "ports": [80]}), [{"rank": 0, "address": "10.1.2.3", "pod": "web-1-0"}]
    )
    assert shown["HostConfig"]["Memory"] == 1 << 30
    assert shown["HostConfig"]["NanoCpus"] == 500_000_000
    assert shown["HostConfig"]["AutoRemove"] is True
    assert shown["Config"]["Env"] == ["A=b"]
    assert shown["NetworkSettings"]["IPAddress"] == "10.1.2.3"
    assert shown["NetworkSettings"]["Ports"] == {"80/tcp": None}


def test_networks_are_those_that_the_client_asked_for() -> None:
    """Docker Compose makes a container again unless it finds the ids of its networks."""
    asked = container(notes={"Networks": {"shop_default": ["web"]}}, spec={"networks": [{"name": "shop_default"}]})
    found = summary(asked, 0.0)["NetworkSettings"]["Networks"]
    assert list(found) == ["shop_default"]
    assert (found["shop_default"]["NetworkID"], found["shop_default"]["Aliases"]) == (
        network_id("shop_default"),
        ["web"],
    )
    later = inspection(asked, [], networks={"other": []})["NetworkSettings"]["Networks"]
    assert list(later) == ["other"]
    for wanted, names in (("shop_default", 1), (network_id("shop_default"), 1), ("bridge", 0)):
        assert len(matching([asked], {"network": frozenset({wanted})})) == names
    plain = inspection(container(), [])["NetworkSettings"]["Networks"]
    assert list(plain) == ["bridge"]
    assert (plain["bridge"]["Aliases"], plain["bridge"]["DriverOpts"]) == (None, None)


def test_networks_of_a_container_are_those_of_its_run() -> None:
    """A container that was connected later, and a run that `kaji` put into a network, were shown in `bridge`."""
    notes = {"Name": "my_web", "Networks": {"bridge": [], "old": ["a"], "shop": ["My_DB", "db"]}}
    used = [{"name": "shop", "aliases": ["db"]}, {"name": "blog", "aliases": ["x"]}]
    changed = container(notes=notes, spec={"networks": used})
    assert changed.networks == {"bridge": [], "shop": ["My_DB", "db"], "blog": ["x"]}
    assert container(notes=notes, spec={"networks": [{"name": "shop", "aliases": ["y"]}]}).networks["shop"] == ["y"]
    assert container(notes={}, spec={"networks": used}).networks == {"shop": ["db"], "blog": ["x"]}
    assert container(notes={"Networks": {"shop": []}}).networks == {}


def test_a_restart_policy_is_changed_and_resources_are_not() -> None:
    """`docker update --restart` was refused, though runs can be changed."""
    plain = container(spec={"restarts": 2})
    assert read_update(plain, {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 5}}) == (
        {"restarts": 5},
        [],
    )
    assert read_update(plain, {"RestartPolicy": {"Name": "no"}}) == ({"restarts": 0}, [])
    same = {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2}, "Memory": 1 << 30, "NanoCpus": 5 * 10**8}
    nothing: tuple[dict[str, Any], list[str]] = ({}, [])
    assert read_update(plain, same) == nothing == read_update(plain, {"Memory": 0, "RestartPolicy": {}})
    assert [one.split(":")[0] for one in read_update(plain, {"CpuShares": 3, "MemorySwap": -1})[1]] == ["--cpu-shares"]
    with pytest.raises(InvalidInput) as refused:
        read_update(plain, {"Memory": 1 << 31, "CpusetCpus": "0", "RestartPolicy": {"Name": "always"}})
    assert [fault.field for fault in refused.value.faults] == ["--memory", "--restart", "--cpuset-cpus"]
    service = container(spec={"type": "service"}, notes={"HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}}})
    assert read_update(service, {"RestartPolicy": {"Name": "always"}}) == nothing
    asked = {"HostConfig": {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 7}}}
    shown = [
        inspection(one, [])["HostConfig"]["RestartPolicy"]
        for one in (service, plain, container(spec={"restarts": 1_000_000}), container(notes=asked))
    ]
    assert [(one["Name"], one["MaximumRetryCount"]) for one in shown] == [
        ("unless-stopped", 0),
        ("on-failure", 2),
        ("on-failure", 0),
        ("no", 0),
    ]


def test_a_renamed_container_keeps_its_id() -> None:
    before = container("Stopped", **NEVER_STARTED)
    made = renamed(before, "shop-web-1").body("default")
    after = container("Stopped", uid="u2", annotations=made["annotations"], **NEVER_STARTED)
    assert (made["name"], after.name, after.id) == ("shop-web-1", "shop-web-1", before.id)
    with pytest.raises(InvalidInput, match="use two or more letters"):
        renamed(before, "a b")


def test_filters_of_lists() -> None:
    containers = [container(), container("Failed", uid="u2", notes={"Name": "other"}, status={"exitCode": 3})]

    def names(**filters: list[str]) -> list[str]:
        parsed = parse_filters(json.dumps(filters), CONTAINER_FILTERS)
        return [one.name for one in matching(containers, parsed)]

    assert names(name=["oth"]) == ["other"]
    assert names(status=["running"]) == ["my_web"]
    assert names(exited=["3"]) == ["other"]
    assert names(label=["a=b"]) == ["my_web"]
    assert names(ancestor=["alpine:latest"]) == ["my_web", "other"]
    assert names(id=[containers[1].id[:12]], name=["other"]) == ["other"]
    assert parse_filters('{"label": {"a": true, "b": false}}', CONTAINER_FILTERS) == {"label": {"a"}}
    with pytest.raises(InvalidInput, match="invalid filter 'colour'"):
        parse_filters('{"colour": ["red"]}', CONTAINER_FILTERS)


def test_changes_of_runs_are_events() -> None:
    queued = {"phase": "Queued", "startedAt": ""}
    running = {"phase": "Running", "startedAt": "t1"}
    ended = {"phase": "Failed", "startedAt": "t1"}
    assert actions(None, queued) == ["create"]
    assert actions(queued, running) == ["start"]
    assert actions(running, ended) == ["die"]
    assert actions(None, ended) == ["create", "start", "die"]
    assert actions(ended, ended) == []
    assert actions(ended, {"phase": "Failed", "startedAt": "t2"}) == ["start", "die"]
    assert actions(running, {"phase": "Running", "startedAt": "t2"}) == ["die", "start"]
    assert actions(queued, {"phase": "Stopped", "startedAt": ""}) == []
    assert actions(running, queued) == ["die"], "a restart, whose end lay between two looks"


def test_changes_of_health_are_events() -> None:
    """As with Docker, a start is no change, and each start of a container has a health of its own."""
    up = {"phase": "Running", "startedAt": "t1"}
    starting, healthy, unhealthy = ({**up, "health": word} for word in ("starting", "healthy", "unhealthy"))
    assert actions({**up, "phase": "Starting", "startedAt": ""}, starting) == ["start"]
    assert actions(starting, healthy) == ["health_status: healthy"]
    assert actions(healthy, healthy) == actions(unhealthy, starting) == []
    assert actions(healthy, unhealthy) == ["health_status: unhealthy"]
    assert actions(healthy, healthy | {"startedAt": "t2"}) == ["die", "start", "health_status: healthy"]


CHECK: dict[str, Any] = {"health": {"command": "a", "retries": 3}}


@pytest.mark.parametrize(
    ("phase", "health", "word", "shown"),
    [
        ("Running", {"status": "healthy"}, "healthy", "Up 1 minute (healthy)"),
        ("Running", {"status": "unhealthy"}, "unhealthy", "Up 1 minute (unhealthy)"),
        ("Running", None, "starting", "Up 1 minute (health: starting)"),
        ("Queued", None, "starting", "Queued"),
        ("Succeeded", None, "unhealthy", "Exited (0) 1 minute ago"),
    ],
)
def test_a_container_has_the_health_of_its_run(
    phase: str, health: dict[str, Any] | None, word: str, shown: str
) -> None:
    status = {"finishedAt": "2026-11-23T20:00:00Z", "health": health}
    seen, now = container(phase, spec=CHECK, status=status), seconds_of("2026-11-23T20:01:00Z")
    assert seen.health == word and status_words(seen, now) == shown
    assert matching([seen, container()], {"health": frozenset({word})}) == [seen]
    assert matching([container()], {"health": frozenset({"none"})})
    assert "Health" not in inspection(container(), [])["State"]
    of_image = {"Test": ["CMD-SHELL", "true"], "Interval": 2 * 10**9, "Retries": 4}
    seen = container(phase, spec={"health": {"command": "true", "interval": "2s", "retries": 4}}, notes={})
    assert inspection(seen, [])["Config"]["Healthcheck"] == of_image, "it was null for the check of an image"


def test_the_log_of_a_containers_health_has_its_failed_checks() -> None:
    """Oldest first, and of a member that the client named its own health."""
    rest = {"attempt": 1, "address": "", "restarts": 0, "lastExitCode": None}
    words = ("healthy", "unhealthy")
    members = [{"rank": rank, "pod": f"web-1-{rank}", "health": words[rank], **rest} for rank in range(2)]
    events = [
        {"reason": reason, "object": f"Pod/web-1-{rank}", "message": f"{minute}", "time": f"t{minute}"}
        for minute, (reason, rank) in enumerate([("Unhealthy", 1)] * 7 + [("Pulled", 1), ("Unhealthy", 0)])
    ]
    view = container(spec=CHECK | {"replicas": 2}, status={"health": {"status": "unhealthy"}}).view
    health = inspection(Container(view, 1, is_member=True), members, events=events)["State"]["Health"]
    assert (health["Status"], health["FailingStreak"]) == ("unhealthy", 3)
    assert [one["Output"] for one in health["Log"]] == ["4", "3", "2", "1", "0"]
    events = [events[0] | {"message": f"Readiness probe failed: {text}"} for text in ("exit code 3: no file", "odd: x")]
    log = inspection(Container(view, 1, is_member=True), members, events=events)["State"]["Health"]["Log"]
    assert [(one["ExitCode"], one["Output"]) for one in log] == [(1, "odd: x"), (3, "no file")]
    assert inspection(Container(view, 0, is_member=True), members)["State"]["Health"] == {
        "Status": "healthy",
        "FailingStreak": 0,
        "Log": [],
    }
    assert inspection(Container(view), members, events=events)["State"]["Health"]["Status"] == "unhealthy"


async def test_past_events_are_told_to_those_who_ask_for_them() -> None:
    log = EventLog()
    log.add("die", "i1", {"name": "web", "exitCode": "3", "image": "alpine"})
    found = []
    async for event in log.follow(since=0.0, until=None):
        found.append(event)
        break
    assert found[0]["Actor"]["Attributes"]["exitCode"] == "3"
    assert passes(found[0], {"container": frozenset({"web"}), "type": frozenset({"container"})})
    assert not passes(found[0], {"event": frozenset({"start"})})


def test_a_creation_is_told_once_whoever_is_faster() -> None:
    """On a busy machine the runs may show a container before the answer to its creation has arrived."""
    log = EventLog()
    log.foretell("create", "i1", {})
    log.add_seen("create", "i1", {})
    log.add_seen("create", "i2", {})
    log.foretell("create", "i2", {})
    assert [event["id"] for event in log._events] == ["i1", "i2"]


def test_rates_become_counters() -> None:
    meter = Meter(container())
    values = {"cpu.used": 0.5, "memory.used": 1000.0, "network.received": 100.0}
    meter.add([{"values": values}, {"values": values}], 1000.0)
    meter.add([{"values": values}, {"values": values}], 1002.0)
    shown = meter.document()
    used = shown["cpu_stats"]["cpu_usage"]["total_usage"] - shown["precpu_stats"]["cpu_usage"]["total_usage"]
    system = shown["cpu_stats"]["system_cpu_usage"] - shown["precpu_stats"]["system_cpu_usage"]
    assert used == system == 2 * 10**9, "two ranks with half a core each use one core, which is 100 %"
    assert shown["memory_stats"]["usage"] == 2000
    assert shown["networks"]["eth0"]["rx_bytes"] == 600


def test_detach_keys_of_docker_py_are_read() -> None:
    """It writes the field with a small letter if the keys are from its configuration file."""
    for name in ("DetachKeys", "detachKeys"):
        assert Command.of(container(), {"Cmd": ["sh"], name: "ctrl-p"}).detach_keys == b"\x10"


@pytest.mark.parametrize(
    ("own", "user", "outcome"),
    [
        ("", "", "plain"),
        ("1000", "1000", "plain"),
        ("0", "root", "plain"),
        ("", "app", "switched"),  # the image's own user is not known here
        ("", "root", "switched"),
        ("0", "1000:5", "switched"),
        ("1000", "root", "refused"),
        ("1000:5", "1000", "refused"),
    ],
)
def test_a_command_runs_as_another_user_where_root_can_change_it(own: str, user: str, outcome: str) -> None:
    def command() -> Command:
        return Command.of(container(spec={"user": own}), {"Cmd": ["id"], "User": user, "WorkingDir": "/w"})

    if outcome == "refused":
        with pytest.raises(InvalidInput, match="only root may change"):
            command()
        return
    words = command().run_words
    assert command().words == ["id"] and words[-1] == "id"
    assert (user in words) == (outcome == "switched")


def test_the_user_of_a_command_is_found_in_the_container() -> None:
    """Its group, home and numbers come from the image's files; a user without an entry there has group 0."""

    def run(user: str) -> subprocess.CompletedProcess[str]:
        words = as_user(user, ["sh", "-c", "id -u; id -g; echo $HOME; echo $0", "a b"])
        return subprocess.run(words, capture_output=True, text=True, check=False)

    me, group, home = pwd.getpwuid(os.geteuid()).pw_name, os.getegid(), pwd.getpwuid(os.geteuid()).pw_dir
    assert run(me).stdout.split("\n")[:2] == [str(os.geteuid()), str(group)]
    unknown = run("no-such-user")
    assert unknown.returncode == 126 and "unable to find user no-such-user" in unknown.stderr
    assert "unable to find group no-such" in run(f"{me}:no-such").stderr
    if os.geteuid() == 0:
        assert run("4321:7").stdout.split("\n") == ["4321", "7", "/", "a b", ""]
        assert run("root").stdout.split("\n")[2:] == [os.environ.get("HOME", home), "a b", ""]
    else:
        refused = run("root")
        assert refused.returncode == 126 and "only root may change to another" in refused.stderr


def test_output_is_framed_by_stream() -> None:
    assert frame(2, b"oops") == b"\x02\x00\x00\x00\x00\x00\x00\x04oops"


def test_file_modes_are_those_of_go() -> None:
    assert file_stat("/a/link", 0o120777, 3, 0, "b")["mode"] == 1 << 27 | 0o777
    assert file_stat("/a/link", 0o120777, 3, 0, "b")["linkTarget"] == "/a/b"
    assert file_stat("/a", 0o040755, 3, 0, "")["mode"] == 1 << 31 | 0o755


@pytest.mark.parametrize("version", ["1.43", "1.99", "2.0"])
def test_other_versions_of_the_api_are_refused(version: str) -> None:
    with pytest.raises(InvalidInput, match="supported API version"):
        check_version(version)
