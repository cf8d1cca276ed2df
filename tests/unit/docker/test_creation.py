"""Containers that clients ask for, as requests for runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import name_fault
from kajitori.docker.translation.container import ANNOTATION
from kajitori.docker.translation.creation import EmptyFolders, put_networks, read_creation
from kajitori.docker.translation.request import Creation, run_name
from kajitori.errors import InvalidInput

DEFAULTS: dict[str, Any] = {
    "MemorySwappiness": -1,
    "OomKillDisable": False,
    "PidsLimit": 0,
    "NetworkMode": "default",
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "LogConfig": {"Type": "", "Config": {}},
    "Dns": [],
    "Ulimits": [],
    "ConsoleSize": [0, 0],
}
"""Some of the fields that docker's command line always sends."""


def creation(name: str = "", host: dict[str, Any] | None = None, **config: Any) -> Creation:
    body = {"Image": "alpine", "Volumes": {}, "Env": None, **config, "HostConfig": DEFAULTS | (host or {})}
    return read_creation(body, name)


def faults(**arguments: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        creation(**arguments)
    return [fault.field for fault in caught.value.faults]


def test_docker_options_become_the_spec_of_a_run() -> None:
    host = {
        "Memory": 4 << 30,
        "NanoCpus": 2_500_000_000,
        "ShmSize": 1 << 30,
        "Binds": ["data:/data", "/tmp:/x:ro"],
        "Mounts": [{"Type": "volume", "Source": "v", "Target": "/v"}],
        "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]},
        "DeviceRequests": [{"Driver": "", "Count": 8, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}],
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
    }
    labels = {
        "kaji.replicas": "4",
        "kaji.after": "prepare, fetch:ended",
        "team": "vision",
        "com.example.path": "/not a label of Kubernetes",
    }
    made = creation(
        "bert", host, Entrypoint=["sh"], Cmd=["-c", "x"], Env=["A=b=c"], WorkingDir="/w", User="1000", Labels=labels
    )
    assert made.spec == {
        "image": "alpine",
        "command": ["sh"],
        "args": ["-c", "x"],
        "env": {"A": "b=c"},
        "workingDir": "/w",
        "user": "1000",
        "resources": {"memory": str(4 << 30), "cpu": "2500m", "shm": str(1 << 30), "gpu": 8},
        "volumes": [
            {"name": "data", "path": "/data"},
            {"hostPath": "/tmp", "path": "/x", "readOnly": True},
            {"name": "v", "path": "/v"},
        ],
        "ports": [80],
        "restarts": 3,
        "replicas": 4,
        "after": [{"run": "prepare"}, {"run": "fetch", "condition": "ended"}],
    }
    assert made.labels == {"team": "vision"}
    body = made.body("lab")
    assert parse_spec(body["spec"]).stopped
    assert json.loads(body["annotations"][ANNOTATION])["Config"]["Labels"] == labels


def test_plain_defaults_of_the_command_line_are_accepted_silently() -> None:
    made = creation()
    assert (made.spec, made.warnings) == ({"image": "alpine"}, [])


def test_an_empty_entrypoint_makes_the_first_word_the_program() -> None:
    assert creation(Entrypoint=[""], Cmd=["a", "b"]).spec == {"image": "alpine", "command": ["a"], "args": ["b"]}


def test_services_restart_always() -> None:
    assert creation(host={"RestartPolicy": {"Name": "unless-stopped"}}).spec["type"] == "service"


def test_options_that_cannot_be_obeyed_are_all_refused_at_once() -> None:
    host = {
        "CapAdd": ["SYS_ADMIN"],
        "Devices": [{"PathOnHost": "/dev/x"}],
        "Tmpfs": {"/t": ""},
        "NetworkMode": "container:web",
        "DeviceRequests": [{"DeviceIDs": ["0"], "Capabilities": [["gpu"]]}],
        "Invented": 1,
    }
    assert faults(host=host, Labels={"kaji.replicass": "4"}, Volumes={"/data": {}}) == [
        "--gpus",
        "--tmpfs",
        "--volume",
        "--network",
        "--label",
        "--cap-add",
        "--device",
        "Invented",
    ]


def test_shared_memory_of_the_host_is_a_large_one_of_its_own() -> None:
    """PyTorch's pages and many Compose files say `ipc: host`, which was refused."""
    made = creation(host={"IpcMode": "host", "Memory": 1 << 33})
    assert (made.spec["resources"]["shm"], len(made.warnings)) == (str(1 << 33), 1)
    assert "say how large: --shm-size" in creation(host={"IpcMode": "host"}).warnings[0]
    assert creation(host={"IpcMode": "host", "ShmSize": 7}).spec["resources"] == {"shm": "7"}
    assert faults(host={"IpcMode": "container:a"}) == ["--ipc"]


def test_options_that_change_nothing_are_answered_with_a_warning() -> None:
    made = creation(host={"Ulimits": [{"Name": "nofile"}], "Init": True}, Hostname="h")
    assert [warning.split(":")[0] for warning in made.warnings] == ["--hostname", "--ulimit", "--init"]


@pytest.mark.parametrize("name", ["My_Container.1", "9lives", "x" * 60, "a--", "UPPER"])
def test_any_docker_name_has_a_valid_run_name(name: str) -> None:
    assert name_fault(run_name(name)) is None
    assert run_name(name) == run_name(name)


def test_a_name_that_a_run_may_have_is_kept() -> None:
    assert run_name("bert-2") == "bert-2"
    assert run_name("a_b") != run_name("a.b")


def test_a_field_that_no_container_has_is_ignored_with_a_warning() -> None:
    """dockerode sends the name and the fields of old versions in the body."""
    made = creation(name="web", Dns=["8.8.8.8"])
    assert [warning for warning in made.warnings if warning.startswith("Dns is ignored")]
    assert "--dns" in faults(host={"Dns": ["8.8.8.8"]})


def test_a_log_driver_that_docker_does_not_have_is_refused() -> None:
    """In the words of Docker's daemon, which docker-py's tests compare."""
    with pytest.raises(InvalidInput, match=r"^logger: no log driver named 'no-such' is registered$"):
        creation(host={"LogConfig": {"Type": "no-such", "Config": {}}})
    assert any("--log-driver" in warning for warning in creation(host={"LogConfig": {"Type": "none"}}).warnings)


def test_a_variable_without_a_value_is_left_out_with_a_warning() -> None:
    """`docker run -e CI` sends the bare name if CI is not set where it runs."""
    made = creation(Env=["CI", "A=b"])
    assert made.spec["env"] == {"A": "b"}
    assert [warning.split(":")[0] for warning in made.warnings] == ["--env CI"]
    assert made.notes["Unset"] == ["CI"]


def test_all_gpus_of_a_node_need_a_type() -> None:
    """Without one, `--gpus all` once asked for a whole node without GPUs."""
    request = {"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}
    assert faults(host=request) == ["--gpus"]
    made = creation(host=request, Labels={"kaji.gpu-type": "h100"})
    assert made.spec["resources"] == {"wholeNode": True, "gpuType": "h100"}


def test_networks_and_their_options_are_noted_as_the_client_gave_them() -> None:
    endpoints = {"EndpointsConfig": {"shop": {"Aliases": ["web"], "DriverOpts": {"a": "b"}}, "default": None}}
    notes = creation(NetworkingConfig=endpoints).notes
    assert notes["Networks"] == {"shop": ["web"], "bridge": []}
    assert notes["DriverOpts"] == {"shop": {"a": "b"}}
    assert creation().notes["Networks"] == {"bridge": []}


def test_networks_of_clients_become_networks_of_the_run() -> None:
    """The container's own name counts too, if its run has another one. A name that no DNS knows is answered."""
    made = creation("My_web")
    put_networks(made, {"shop": ["web", "My-Web", "a_b", "web"], "bridge": ["x"]})
    assert made.spec["networks"] == [{"name": "shop", "aliases": ["web", "my-web"]}]
    assert "my_web, a_b can't be found by this name" in made.warnings[0]
    assert made.warnings[1].startswith("--network-alias x: only in networks that were made")
    put_networks(made, {"shop": [], "back": []}, ["back"])
    assert made.spec["networks"] == [{"name": "shop"}, {"name": "back", "internal": True}]
    put_networks(made, {"bridge": [], "back": []}, ["back"])  # `bridge` leads out
    assert made.spec["networks"] == [{"name": "back"}]
    plain = creation("web")
    put_networks(plain, {"shop": ["web"], "bridge": []})
    assert (plain.spec["networks"], plain.warnings) == ([{"name": "shop"}], [])


def test_without_network_a_run_may_connect_to_nothing() -> None:
    """Policy refuses it where nothing isolates members."""
    closed: dict[str, Any] = {"from": [], "to": []}
    assert creation(host={"NetworkMode": "none"}).spec["network"] == closed
    assert creation(NetworkDisabled=True).spec["network"] == closed


@pytest.mark.parametrize(
    ("check", "refused", "warned"),
    [
        ({"Test": ["CMD-SHELL", "true"], "Interval": 10**9}, [], 0),
        ({"Test": ["NONE"]}, [], 0),
        ({"Interval": 10**9}, [], 1),  # for the image's own check, which is not known
        ({"Test": ["CMD"]}, ["--health-cmd"], 0),
        (
            {"Test": ["SHELL", "x"], "Timeout": 5, "Retries": -1},
            ["Healthcheck", "--health-timeout", "--health-retries"],
            0,
        ),
    ],
)
def test_a_health_check_is_kept_with_the_run(check: dict[str, Any], refused: list[str], warned: int) -> None:
    if refused:
        assert faults(Healthcheck=check) == refused
        return
    made = creation(Healthcheck=check)
    assert made.notes["Config"]["Healthcheck"] == check
    assert bool(made.spec.get("health")) == ("CMD-SHELL" in check.get("Test", ()))
    assert ("health" in made.spec) == bool(check.get("Test")), "left out, it is that of the image"
    assert len([text for text in made.warnings if text.startswith("--health-interval")]) == warned


def test_a_health_check_becomes_that_of_the_run() -> None:
    """Kubelets know whole seconds, so that shorter times are rounded up, with a warning. 0 stands for the default."""
    second = 10**9
    times = {"Interval": second // 2, "Timeout": 0, "StartPeriod": 90 * second, "StartInterval": second, "Retries": 2}
    made = creation(Healthcheck={"Test": ["CMD-SHELL", "test -e /x"], **times})
    health = {"command": "test -e /x", "interval": "1s", "startPeriod": "90s", "startInterval": "1s", "retries": 2}
    assert made.spec["health"] == health
    assert made.warnings == ["--health-interval 0.5s: kubelets know whole seconds: 1s"]
    for test, command in ((["CMD", "a", "b"], ["a", "b"]), (["CMD-SHELL", "a", "b"], ["/bin/sh", "-c", "a", "b"])):
        assert creation(Healthcheck={"Test": test, "Retries": 0}).spec["health"] == {"command": command}


def test_anonymous_volumes_and_tmpfs_are_empty_folders_that_policy_offers() -> None:
    """Compose files and programs that use Docker's API have anonymous volumes often."""
    offered: list[dict[str, Any]] = [
        {"name": "data", "kind": "nfs"},
        {"name": "fixed", "kind": "emptyDir", "readOnly": True},
        {"name": "fast", "kind": "emptyDir", "inMemory": True},
        {"name": "scratch", "kind": "emptyDir", "inMemory": False},
    ]
    empty = EmptyFolders.offered(offered)
    assert empty == EmptyFolders("scratch", "fast")
    host = {
        "Binds": ["/a", "data:/data"],
        "Tmpfs": {"/t": "size=64m"},
        "Mounts": [{"Type": "tmpfs", "Target": "/u"}, {"Type": "volume", "Target": "/v"}],
    }
    made = read_creation({"Image": "alpine", "Volumes": {"/data": {}, "/w": {}}, "HostConfig": host}, "", empty)
    assert {use["path"]: use["name"] for use in made.spec["volumes"]} == {
        "/a": "scratch",
        "/data": "data",
        "/u": "fast",
        "/v": "scratch",
        "/t": "fast",
        "/w": "scratch",
    }
    assert [warning.split(":")[0] for warning in made.warnings] == ["--volume /a", "--mount /v", "--volume /w"]
    assert faults(host=host, Volumes={"/w": {}}) == ["--volume", "--mount", "--mount", "--tmpfs", "--volume"]


def test_addresses_in_a_network_are_refused() -> None:
    """They were ignored without a word."""
    fixed = {"IPAMConfig": {"IPv4Address": "10.0.0.9"}, "MacAddress": "02:42:ac:11:00:02", "Links": ["db:db"]}
    endpoints = {"EndpointsConfig": {"shop": fixed, "bridge": {"IPAMConfig": {}}}}
    assert faults(NetworkingConfig=endpoints) == ["--ip", "--mac-address", "--link"]
