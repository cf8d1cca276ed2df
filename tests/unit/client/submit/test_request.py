"""From options to the spec: Docker's options and ours; every fault names the user's option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kajitori.client.submit.request import RunRequest, build_request
from kajitori.client.submit.run_options import RunWords
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import Fault, InvalidInput

HERE = Path("/home/alice/project")
FILES = {
    "vars.env": "# a comment\nLR=3e-4\n\n  NAME=a b=c\nHOME\n",
    "bad.env": "LR=1\n=2\nA B=3\n",
    "spec.yaml": "image: registry/bert:3\nresources: {gpu: 4, gpuType: a100}\nenv: {LR: '1', SEED: '7'}\n"
    "args: [a.py]\n",
    "run.yaml": "apiVersion: kajitori.dev/v1alpha1\nkind: Run\nmetadata: {name: bert, namespace: nlp, labels: {a: b}}\n"
    "spec: {image: registry/bert:3, command: [python], args: [train.py], ports: [80]}\n",
    "wrong.yaml": "apiVersion: v1\nkind: Pod\nspce: 1\nspec: [1]\n",
    "around.yaml": "apiVersion: kajitori.dev/v1alpha1\nkind: Job\nmetadata: {name: 5}\nspec: {image: x, replicas: 0}\n",
    "typo.yaml": "image: x\ncommnd: [a]\nresources: {gpus: 3}\n",
    "two.yaml": "image: x\n---\nimage: y\n",
    "broken.yaml": "image: [x\n",
}


def read_text(file: str) -> str:
    if file not in FILES:
        raise FileNotFoundError(2, "No such file or directory", file)
    return FILES[file]


DIGEST = "sha256:" + "a" * 64


def build(**words: Any) -> RunRequest:
    return build_request(
        RunWords(**words),
        environment={"HOME": "/home/alice", "LR": "5"},
        folder=HERE,
        read_text=read_text,
        pack=lambda folder: DIGEST,
    )


def faults(**words: Any) -> list[Fault]:
    return list(build(**words).faults)


SPECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing but an image": ({}, {}),
    "the program's own words": ({"command": ("python", "-c", "1")}, {"args": ["python", "-c", "1"]}),
    "words behind a double dash": ({"command": ("--", "ls", "--", "x")}, {"args": ["ls", "--", "x"]}),
    "an entrypoint": (
        {"entrypoint": "bash", "command": ("-c", "ls")},
        {"command": ["bash"], "args": ["-c", "ls"]},
    ),
    "an entrypoint that is taken away": (
        {"entrypoint": "", "command": ("ls", "-l")},
        {"command": ["ls"], "args": ["-l"]},
    ),
    "Docker's sizes are binary": (
        {"memory": "64g", "shm_size": "512M"},
        {"resources": {"memory": "64Gi", "shm": "512Mi"}},
    ),
    "a size that is no whole unit": ({"memory": "1.5g"}, {"resources": {"memory": "1536Mi"}}),
    "cores": ({"cpus": "0.5"}, {"resources": {"cpu": "0.5"}}),
    "gpus": ({"gpus": "8", "gpu_type": "h100"}, {"resources": {"gpu": 8, "gpuType": "h100"}}),
    "gpus as a count": ({"gpus": "count=2"}, {"resources": {"gpu": 2}}),
    "gpus with their type": ({"gpus": "h100:2"}, {"resources": {"gpu": 2, "gpuType": "h100"}}),
    "gpus as a generic resource": ({"gpus": "gpu:h100:2"}, {"resources": {"gpu": 2, "gpuType": "h100"}}),
    "gpus with their type, twice": (
        {"gpus": "h100:2", "gpu_type": "h100"},
        {"resources": {"gpu": 2, "gpuType": "h100"}},
    ),
    "all gpus with their type": ({"gpus": "h100:all"}, {"resources": {"wholeNode": True, "gpuType": "h100"}}),
    "a time limit as in Slurm": ({"time_limit": "2-00:00:00"}, {"timeLimit": "2-00:00:00"}),
    "all gpus of a type": (
        {"gpus": "all", "gpu_type": "h100"},
        {"resources": {"wholeNode": True, "gpuType": "h100"}},
    ),
    "a gang": ({"replicas": "4", "launcher": "torchrun"}, {"replicas": 4, "launcher": "torchrun"}),
    "an elastic gang": ({"replicas": "8-32"}, {"replicas": 32, "minReplicas": 8}),
    "whole nodes": ({"whole_node": True}, {"resources": {"wholeNode": True}}),
    "variables": ({"env": ("A=1", "B=", "C=x=y")}, {"env": {"A": "1", "B": "", "C": "x=y"}}),
    "a variable of this shell": ({"env": ("LR",)}, {"env": {"LR": "5"}}),
    "a variable that this shell has not": ({"env": ("NOWHERE", "A=1")}, {"env": {"A": "1"}}),
    "a file of variables": (
        {"env_file": ("vars.env",)},
        {"env": {"LR": "3e-4", "NAME": "a b=c", "HOME": "/home/alice"}},
    ),
    "an option overrules the file of variables": (
        {"env_file": ("vars.env",), "env": ("LR=1",)},
        {"env": {"LR": "1", "NAME": "a b=c", "HOME": "/home/alice"}},
    ),
    "a volume by name": (
        {"volume": ("imagenet:/data:ro",)},
        {"volumes": [{"path": "/data", "name": "imagenet", "readOnly": True}]},
    ),
    "a folder": ({"volume": ("/a:/b",)}, {"volumes": [{"path": "/b", "hostPath": "/a"}]}),
    "a relative folder": ({"volume": ("./x/../y:/b:rw",)}, {"volumes": [{"path": "/b", "hostPath": f"{HERE}/y"}]}),
    "this folder": ({"volume": (".:/b",)}, {"volumes": [{"path": "/b", "hostPath": str(HERE)}]}),
    "a folder at home": ({"volume": ("~/x:/b",)}, {"volumes": [{"path": "/b", "hostPath": "/home/alice/x"}]}),
    "SELinux's letters are of no use here": (
        {"volume": ("/a:/b:ro,z",)},
        {"volumes": [{"path": "/b", "hostPath": "/a", "readOnly": True}]},
    ),
    "a checkpoint": ({"checkpoint": "/ckpt:100Gi"}, {"checkpoint": {"path": "/ckpt", "size": "100Gi"}}),
    "how often it is written": (
        {"checkpoint": "/ckpt", "checkpoint_every": "10m"},
        {"checkpoint": {"path": "/ckpt", "every": "10m"}},
    ),
    "a checkpoint of any size": ({"checkpoint": "/ckpt"}, {"checkpoint": {"path": "/ckpt"}}),
    "ports": ({"publish": ("8888", "80:80", "99/tcp", "8888")}, {"ports": [8888, 80, 99]}),
    "secrets": (
        {"secret": ("hub", "keys:/run/keys", "TOKEN=hub/token")},
        {
            "secrets": [
                {"name": "hub"},
                {"name": "keys", "path": "/run/keys"},
                {"name": "hub", "key": "token", "env": "TOKEN"},
            ]
        },
    ),
    "placement": (
        {"node_selector": ("zone=a",), "toleration": ("gpu=h100:NoSchedule", "spot")},
        {
            "nodeSelector": {"zone": "a"},
            "tolerations": [
                {"key": "gpu", "operator": "Equal", "value": "h100", "effect": "NoSchedule"},
                {"key": "spot", "operator": "Exists"},
            ],
        },
    ),
    "life": (
        {"restarts": "0", "priority": "low", "time_limit": "8h", "grace": "60s", "type": "service"},
        {"restarts": 0, "priority": "low", "timeLimit": "8h", "grace": "60s", "type": "service"},
    ),
    "where and as whom": ({"workdir": "/w", "user": "1000:1000"}, {"workingDir": "/w", "user": "1000:1000"}),
    "a terminal": ({"interactive": True, "tty": True}, {"stdin": True, "tty": True}),
    "the node's network": ({"network": "host", "privileged": True}, {"hostNetwork": True, "privileged": True}),
    "no network": ({"network": "none"}, {"network": {"from": [], "to": []}}),
    "whom it may reach": (
        {"allow_to": ("internal,10.9.0.0/16", "storage"), "allow_from": ("none",)},
        {"network": {"from": [], "to": ["internal", "10.9.0.0/16", "storage"]}},
    ),
    "labels are the run's and its members'": ({"label": ("team=x", "on")}, {"labels": {"team": "x", "on": ""}}),
}


@pytest.mark.parametrize(("words", "spec"), SPECS.values(), ids=SPECS.keys())
def test_options_become_a_spec(words: dict[str, Any], spec: dict[str, Any]) -> None:
    """The sent spec is valid."""
    request = build(image="python:3.11", **words)
    assert request.spec == {"image": "python:3.11", **spec}
    parse_spec(request.spec)


def test_a_bare_spec_is_overruled_by_options() -> None:
    """Single values are replaced, variables are merged, and words after the image replace the file's arguments."""
    request = build(file="spec.yaml", gpus="8", env=("LR=2",), command=("b.py",), image="other:1")
    assert request.spec == {
        "image": "other:1",
        "resources": {"gpu": 8, "gpuType": "a100"},
        "env": {"LR": "2", "SEED": "7"},
        "args": ["b.py"],
    }


def test_a_manifest_sets_name_namespace_and_labels() -> None:
    """Options take precedence."""
    request = build(file="run.yaml", publish=("80", "81"))
    assert (request.name, request.namespace, request.labels) == ("bert", "nlp", {"a": "b"})
    assert request.spec["command"] == ["python"]
    assert request.spec["ports"] == [80, 81]
    other = build(file="run.yaml", name="gpt", namespace="x", label=("a=c",))
    assert other.body()["name"] == "gpt"
    assert other.body()["namespace"] == "x"
    assert other.body()["labels"] == {"a": "c"}


def test_gpus_all_replaces_the_files_number() -> None:
    """`--gpus all` means whole nodes of the type in the file."""
    assert build(file="spec.yaml", gpus="all").spec["resources"] == {"gpuType": "a100", "wholeNode": True}


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no image": ({}, "IMAGE", "is required"),
    "memory": ({"image": "x", "memory": "lots"}, "--memory", "'lots' is not a size"),
    "negative memory": ({"image": "x", "memory": "-1g"}, "--memory", "'-1g' is negative"),
    "cores": ({"image": "x", "cpus": "many"}, "--cpus", "'many' is not an amount"),
    "no cores": ({"image": "x", "cpus": "0"}, "--cpus", "'0' is not above zero"),
    "members": ({"image": "x", "replicas": "two"}, "--replicas", "'two' is not a whole number"),
    "a range downwards": ({"image": "x", "replicas": "32-8"}, "--replicas", "'32-8': a range goes upwards"),
    "a range from nothing": ({"image": "x", "replicas": "0-3"}, "--replicas", "'0-3': a gang has at least one member"),
    "half a range": ({"image": "x", "replicas": "8-"}, "--replicas", "'8-' is not a whole number"),
    "a range without a most": ({"image": "x", "replicas": "-8"}, "--replicas", "-8 is not allowed"),
    "no members": ({"image": "x", "replicas": "0"}, "--replicas", "0 is not allowed: it must be at least 1"),
    "gpus": ({"image": "x", "gpus": "x"}, "--gpus", "'x' is not a number of GPUs"),
    "gpus of two types": (
        {"image": "x", "gpus": "h100:2", "gpu_type": "a100"},
        "--gpus",
        "another type than --gpu-type a100",
    ),
    "a volume's option behind a comma": (
        {"image": "x", "volume": ("/data:/data,ro",)},
        "--volume",
        "options of a volume stand behind a colon",
    ),
    "a type alone": ({"image": "x", "gpus": "h100"}, "--gpus", "'h100' is not a number of GPUs"),
    "chosen gpus": ({"image": "x", "gpus": '"device=0"'}, "--gpus", "which GPUs it gets is the cluster's choice"),
    "all gpus of any node": ({"image": "x", "gpus": "all"}, "--gpus", "all GPUs of a node, but nodes differ"),
    "a type without gpus": (
        {"image": "x", "gpu_type": "h100"},
        "--gpu-type",
        "a GPU type is given, but no number of GPUs",
    ),
    "a terminal of several": ({"image": "x", "tty": True, "replicas": "2"}, "-t", "cannot be shared by 2 members"),
    "Docker's restart": ({"image": "x", "restart": "always"}, "--restart", "a gang restarts as a whole"),
    "mapped ports": ({"image": "x", "publish": ("8080:80",)}, "--publish", "ports are not mapped"),
    "no port": ({"image": "x", "publish": ("http",)}, "--publish", "is not a port"),
    "UDP": ({"image": "x", "publish": ("53/udp",)}, "--publish", "only TCP"),
    "an impossible port": ({"image": "x", "publish": ("70000",)}, "--publish", "must be at most 65535"),
    "half a volume": ({"image": "x", "volume": ("/data",)}, "--volume", "does not say what is mounted where"),
    "a volume's option": ({"image": "x", "volume": ("/a:/b:cached",)}, "--volume", "cached is no option"),
    "a volume's path": ({"image": "x", "volume": ("a:b",)}, "--volume a:b", "'b' is not an absolute path"),
    "a file of variables that is not there": ({"image": "x", "env_file": ("no.env",)}, "--env-file", "No such file"),
    "a variable without name": ({"image": "x", "env": ("=1",)}, "--env", "does not name a variable"),
    "a variable of ours": ({"image": "x", "env": ("KAJI_RANK=1",)}, "--env KAJI_RANK", "is reserved"),
    "a launcher": ({"image": "x", "launcher": "slurm"}, "--launcher", "'slurm' is not one of none, torchrun"),
    "a type": ({"image": "x", "type": "job"}, "--type", "'job' is not one of batch, service"),
    "memory without a unit": ({"image": "x", "memory": "64"}, "--memory", "'64' is less than any program needs"),
    "a time": ({"image": "x", "time_limit": "soon"}, "--time-limit", "'soon' is not a duration"),
    "a user's name": ({"image": "x", "user": "bob"}, "--user", "'bob' is not a user"),
    "a checkpoint's path": ({"image": "x", "checkpoint": "ckpt:1Gi"}, "--checkpoint", "not an absolute path"),
    "how often nothing is written": ({"image": "x", "checkpoint_every": "10m"}, "--checkpoint", "is required"),
    "how often a checkpoint is written": (
        {"image": "x", "checkpoint": "/ckpt", "checkpoint_every": "0s"},
        "--checkpoint-every",
        "is not above zero",
    ),
    "a run's name": ({"image": "x", "name": "Bert"}, "--name", "'Bert' is not a valid name for a run"),
    "a label of Kubernetes": (
        {"image": "x", "label": ("kubernetes.io/a=b",)},
        "--label kubernetes.io/a=b",
        "are reserved",
    ),
    "a taint's effect": ({"image": "x", "toleration": ("a:Never",)}, "--toleration", "'Never' is no effect"),
    "a selector without value": ({"image": "x", "node_selector": ("a",)}, "--node-selector", "names no value"),
    "a secret without key": ({"image": "x", "secret": ("A=b",)}, "--secret", "names no key"),
    "a network's name": ({"image": "x", "network": "_x"}, "--network", "is not a valid name for a network"),
    "a name in no network": ({"image": "x", "network_alias": ("db",)}, "--network-alias", "and there is none"),
    "no network, and some": (
        {"image": "x", "network": "none", "allow_to": ("internal",)},
        "--allow-to",
        "'internal', but --network none allows nobody",
    ),
    "an empty place": ({"image": "x", "allow_to": ("x" * 65,)}, f"--allow-to {'x' * 65}", "at most 64"),
    "an image": ({"image": "UPPER CASE"}, "IMAGE", "is not a valid image name"),
    "a missing file": ({"file": "no.yaml"}, "--file", "can't be read: No such file"),
    "broken YAML": ({"file": "broken.yaml"}, "broken.yaml: line 2, column 1", "not YAML"),
    "two documents": ({"file": "two.yaml"}, "two.yaml", "holds 2 documents"),
    "an unknown field of a file": ({"file": "typo.yaml"}, "typo.yaml: spec.commnd", "there is no field 'commnd'"),
}


@pytest.mark.parametrize(("words", "field", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_name_the_option(words: dict[str, Any], field: str, message: str) -> None:
    """A fault is found without a server, names the option or the file as the user wrote it, and says what is wrong."""
    found = faults(**words)
    matching = [fault for fault in found if fault.field == field and message in fault.message]
    assert len(matching) == 1, found


def test_faults_of_options_files_and_the_spec_are_named_together() -> None:
    found = faults(image="x", memory="lots", env_file=("bad.env", "no.env"), type="job", replicas="x", name="A")
    assert {fault.field for fault in found} == {
        "--memory",
        "--env-file bad.env:2",
        "--env-file bad.env:3",
        "--env-file",
        "--type",
        "--replicas",
        "--name",
    }


def test_all_faults_of_a_manifest_are_named_with_its_file() -> None:
    """Those of the spec and those around it."""
    assert {fault.field for fault in faults(file="wrong.yaml")} == {
        "wrong.yaml: apiVersion",
        "wrong.yaml: kind",
        "wrong.yaml: spce",
        "wrong.yaml: spec",
    }
    assert [fault.field for fault in faults(file="around.yaml")] == [
        "around.yaml: kind",
        "around.yaml: metadata.name",
        "around.yaml: spec.replicas",
    ]


def test_the_hint_for_an_option_names_options() -> None:
    (fault,) = faults(image="x", gpu_type="h100")
    assert fault.hint == "add --gpus, or --whole-node"


def test_faults_found_by_the_server_name_options() -> None:
    request = build(image="x", gpus="8", gpu_type="h1000", env=("A=1",))
    error = InvalidInput(
        [
            Fault("spec.resources.gpuType", "there is no GPU type h1000"),
            Fault("spec.env.A", "is not allowed"),
            Fault("spec.resources.memory", "is required here"),
        ]
    )
    renamed = [fault.field for fault in request.in_users_words(error).faults]
    assert renamed == ["--gpu-type", "--env A", "spec.resources.memory"]


@pytest.mark.parametrize(
    ("words", "folder", "code"),
    [
        ({"code": "."}, HERE, {"digest": DIGEST}),
        ({"code": "src:/work"}, HERE / "src", {"digest": DIGEST, "path": "/work"}),
        ({"code": "~/a:b"}, Path("/home/alice/a:b"), {"digest": DIGEST}),
        ({"file": "jobs/code.yaml"}, HERE / "jobs/here", {"digest": DIGEST, "path": "/x"}),
        ({"file": "jobs/code.yaml", "code": "there"}, HERE / "there", {"digest": DIGEST}),
    ],
)
def test_code_is_the_folder_named_by_the_option_or_the_file(
    words: dict[str, Any], folder: Path, code: dict[str, str]
) -> None:
    """In a file the path is relative to the file's folder. The option takes precedence."""
    packed: list[Path] = []

    def pack(found: Path) -> str:
        packed.append(found)
        return DIGEST

    request = build_request(
        RunWords(image="x", **words),
        environment={"HOME": "/home/alice"},
        folder=HERE,
        read_text=lambda _: "image: y\ncode: here:/x\n",
        pack=pack,
    )
    assert (request.faults, packed, request.spec["code"]) == ((), [folder], code)


@pytest.mark.parametrize(("word", "path"), [(DIGEST, {}), (f"{DIGEST}:/work", {"path": "/work"})])
def test_code_of_an_earlier_run_is_named_by_its_digest(word: str, path: dict[str, str]) -> None:
    """`describe` shows the digest; nothing is packed."""
    request = build_request(
        RunWords(image="x", code=word), environment={}, folder=HERE, read_text=lambda _: "", pack=lambda _: "packed"
    )
    assert (request.faults, request.spec["code"]) == ((), {"digest": DIGEST} | path)


@pytest.mark.parametrize(
    ("words", "field"),
    [({"code": ""}, "--code"), ({"code": ":/work"}, "--code"), ({"file": "a.yaml"}, "a.yaml: spec.code")],
)
def test_an_empty_code_folder_is_refused(words: dict[str, Any], field: str) -> None:
    """An unset variable does not mean the present folder."""
    request = build_request(
        RunWords(image="x", **words),
        environment={},
        folder=HERE,
        read_text=lambda _: "code: ''",
        pack=lambda _: "packed",
    )
    assert [(fault.field, fault.hint) for fault in request.faults] == [(field, "name one; . is the one you are in")]


def test_files_that_cannot_be_packed_are_reported_with_other_faults() -> None:
    def pack(folder: Path) -> str:
        raise InvalidInput([Fault("a", "is a socket"), Fault("b", "is a device", hint="leave it out")])

    request = build_request(
        RunWords(image="x", memory="lots", code="."), environment={}, folder=HERE, read_text=read_text, pack=pack
    )
    assert [(fault.field, fault.message) for fault in request.faults] == [
        ("--memory", "'lots' is not a size"),
        ("--code .: a", "is a socket"),
        ("--code .: b", "is a device"),
    ]


def test_a_sweep_is_requested_with_array() -> None:
    """`--array` takes the place of the file's replicas, and faults name the option."""
    request = build(image="bert:3", array="0-9%4", stop_at="first-failure")
    assert request.spec.items() >= {"array": "0-9%4", "stopAt": "first-failure"}.items()
    assert not request.faults
    assert [fault.field for fault in faults(image="bert:3", array="9-1")] == ["--array"]
    assert [fault.field for fault in faults(image="bert:3", stop_at="first-failure")] == ["--stop-at"]
    both = faults(image="bert:3", array="0-9", replicas="3", launcher="torchrun")
    assert {fault.field for fault in both} == {"--replicas", "--launcher"}


def test_an_unknown_volume_that_is_a_local_folder_leads_to_a_hint(tmp_path: Path) -> None:
    """Docker would create a volume of that name. Here the server refuses it, and the hint names the folder."""
    (tmp_path / "data").mkdir()
    words = RunWords(image="x", volume=("data:/data:ro", "models:/models"))
    request = build_request(words, environment={}, folder=tmp_path, read_text=read_text, pack=lambda _: DIGEST)
    unknown = [
        Fault(f"spec.volumes[{index}].name", "there is no volume", hint="ask", code="UnknownVolume")
        for index in range(2)
    ]
    found = request.in_users_words(InvalidInput(unknown)).faults
    assert [fault.field for fault in found] == ["--volume data:/data:ro", "--volume models:/models"]
    hint = "a folder of this machine begins with ./ or /: -v ./data:/data:ro"
    assert [fault.hint for fault in found] == [hint, "ask"]


def test_a_volumes_option_after_a_comma_is_corrected_in_the_hint() -> None:
    (fault,) = faults(image="x", volume=("/data:/data,ro",))
    assert fault.hint == "write -v /data:/data:ro"
    assert not faults(image="x", volume=("/data:/a,b",))


def test_other_runs_to_wait_for_are_named_with_their_conditions() -> None:
    request = build(image="bert:3", after=["prepare", "fetch:ended", "db:healthy"])
    others = [{"run": "prepare"}, {"run": "fetch", "condition": "ended"}, {"run": "db", "condition": "healthy"}]
    assert request.spec["after"] == others
    wrong = faults(image="bert:3", after=["prepare", "fetch:failed", "prepare:ended", "Not A Name"])
    assert [fault.field for fault in wrong] == ["--after fetch:failed", "--after Not A Name"]
    assert [fault.field for fault in faults(image="bert:3", after=["a", "a:ended"])] == ["--after a:ended"]


def test_the_options_of_a_health_check_are_dockers() -> None:
    """Faults name the option, also of the command that is missing."""
    given = build(image="x", health_cmd="a | b", health_interval="10s", health_retries="2", health_start_period="1m")
    assert given.spec["health"] == {"command": "a | b", "interval": "10s", "retries": 2, "startPeriod": "1m"}
    wrong = {"health_interval": "soon", "health_timeout": "0", "health_retries": "few", "health_start_interval": "-1s"}
    names = {f"--{name.replace('_', '-')}" for name in wrong}
    assert {fault.field for fault in faults(image="x", **wrong)} == names | {"--health-cmd"}
    assert [fault.field for fault in faults(image="x", health_cmd="")] == ["--health-cmd"]


def test_no_healthcheck_removes_that_of_a_template() -> None:
    template = {"image": "x", "health": {"command": "a", "retries": 9}}

    def made(**words: Any) -> RunRequest:
        return build_request(
            RunWords(template="t", **words),
            environment={},
            folder=HERE,
            read_text=read_text,
            pack=lambda _: DIGEST,
            template=template,
        )

    assert made(health_cmd="b").spec["health"] == {"command": "b", "retries": 9}
    assert made(no_healthcheck=True).spec["health"] is None, "left out, it would be that of the image"
    (fault,) = made(no_healthcheck=True, health_cmd="b", health_retries="1").faults
    assert (fault.field, fault.message) == ("--no-healthcheck", "excludes --health-cmd, --health-retries")
