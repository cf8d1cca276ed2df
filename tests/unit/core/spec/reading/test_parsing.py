"""A Run's spec: parsing, serialisation, and all faults at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.naming.run_names import make_name
from kajitori.core.spec.reading.conflicts import MAX_TEXT_BYTES
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import RunSpec, check_name, container_words, name_fault, to_document
from kajitori.errors import Fault, InvalidInput

DIGEST = f"sha256:{'a' * 64}"
BERT = {
    "type": "batch",
    "image": "registry/bert:3",
    "command": ["python", "train.py"],
    "env": {"LR": "3e-4"},
    "replicas": 4,
    "launcher": "torchrun",
    "resources": {"cpu": 8, "memory": "64Gi", "gpu": 8, "gpuType": "h100", "shm": "16Gi", "wholeNode": False},
    "volumes": [{"name": "imagenet", "path": "/data", "readOnly": True}],
    "checkpoint": {"path": "/ckpt", "size": "100Gi"},
    "restarts": 10,
    "priority": "normal",
    "timeLimit": "7d",
    "grace": "60s",
    "ports": [8888],
}


def faults(document: object, where: str = "spec") -> dict[str, Fault]:
    """Return the faults of a document by field."""
    with pytest.raises(InvalidInput) as caught:
        parse_spec(document, where=where)
    return {fault.field: fault for fault in caught.value.faults}


def test_an_example_is_parsed_into_exact_numbers() -> None:
    """The names of the fields have units."""
    spec = parse_spec(BERT)
    assert spec.resources.cpu_millis == 8000
    assert spec.resources.memory_bytes == 64 * 2**30
    assert spec.resources.shm_bytes == 16 * 2**30
    assert spec.time_limit_seconds == 7 * 86400
    assert spec.grace_seconds == 60
    assert spec.checkpoint is not None
    assert spec.checkpoint.size_bytes == 100 * 2**30


def test_a_serialized_spec_has_canonical_amounts_and_no_defaults() -> None:
    """On request it has all defaults."""
    document = to_document(parse_spec(BERT | {"resources": {"cpu": 0.5, "memory": "64g"}, "launcher": "none"}))
    assert document["resources"] == {"cpu": "500m", "memory": "64Gi"}
    assert document["grace"] == "1m"
    assert "type" not in document
    assert "launcher" not in document
    complete = to_document(parse_spec({"image": "a"}), with_defaults=True)
    assert complete["type"] == "batch"
    assert complete["resources"] == {"gpu": 0, "wholeNode": False}


def test_reading_undoes_writing() -> None:
    """With and without defaults."""
    spec = parse_spec(BERT)
    assert parse_spec(to_document(spec)) == spec
    assert parse_spec(to_document(spec, with_defaults=True)) == spec


def test_all_faults_of_a_document_are_reported_at_once() -> None:
    """Each has its path and a remedy."""
    found = faults(
        {
            "imag": "x",
            "command": "python x",
            "replicas": "4",
            "env": {"1A": "x", "B": 3, "KAJI_RANK": "1"},
            "volumes": [{"nmae": "a", "path": "b"}],
            "resources": {"cpu": "-1", "memory": "1x", "gpu_type": "h100"},
            "type": "cron",
            "launcher": "slurm",
            "ports": [0],
            "restarts": -1,
            "timeLimit": "soon",
            "labels": {"kajitori.dev/run": "me"},
        }
    )
    assert set(found) == {
        "spec.imag",
        "spec.image",
        "spec.command",
        "spec.replicas",
        "spec.env['1A']",
        "spec.env.B",
        "spec.env.KAJI_RANK",
        "spec.volumes[0].nmae",
        "spec.volumes[0].path",
        "spec.resources.cpu",
        "spec.resources.memory",
        "spec.resources.gpu_type",
        "spec.type",
        "spec.launcher",
        "spec.ports[0]",
        "spec.restarts",
        "spec.timeLimit",
        "spec.labels['kajitori.dev/run']",
    }
    assert found["spec.imag"].hint == "did you mean image?"
    assert found["spec.imag"].code == "UnknownField"
    assert found["spec.volumes[0].nmae"].hint == "did you mean name?"
    assert found["spec.resources.gpu_type"].hint == "did you mean gpuType?"
    assert "64Gi" in found["spec.resources.memory"].hint
    assert found["spec.env.B"].hint == 'write it in quotes: "3"'
    assert "batch" in found["spec.type"].message


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown field of another part", {"gpu": 3}, "spec.gpu", "it belongs under resources"),
    ("GPUs outside resources", {"gpu": 3, "resources": {"gpuType": "h100"}}, "spec.gpu", "it belongs under resources"),
    ("a wrong name outside its part", {"gpus": 3}, "spec.gpus", "did you mean resources.gpu?"),
    ("a field of the whole in a part", {"resources": {"replicas": 3}}, "spec.resources.replicas", "belongs under spec"),
    ("a field of a later version", {"mesh": "0-9"}, "spec.mesh", "known:"),
    ("request above limit", {"qos": "burstable", "resources": {"memory": "1Gi", "memoryRequest": "2Gi"}}, "", ""),
    ("burstable unsaid", {"resources": {"cpu": 2, "cpuRequest": 1}}, "spec.resources.cpuRequest", "qos: burstable"),
    ("request without limit", {"resources": {"cpuRequest": 1}}, "spec.resources.cpuRequest", "qos: burstable"),
    ("burstable without request", {"qos": "burstable", "resources": {"cpu": 2}}, "spec.qos", "memoryRequest"),
    ("type without GPUs", {"resources": {"gpuType": "h100"}}, "spec.resources.gpuType", "resources.gpu"),
    ("shm above memory", {"resources": {"memory": "1Gi", "shm": "2Gi"}}, "spec.resources.shm", "raise memory"),
    ("input of a gang", {"stdin": True, "replicas": 2}, "spec.stdin", "run one member"),
    ("a terminal of a sweep", {"tty": True, "array": "0-1"}, "spec.tty", "kaji exec -it RUN sh"),
    ("zero cpu", {"resources": {"cpu": 0}}, "spec.resources.cpu", "0.5"),
    ("memory without a unit", {"resources": {"memory": 64}}, "spec.resources.memory", "minimum is 6Mi"),
    ("absurd memory", {"resources": {"memory": "1e30"}}, "spec.resources.memory", "64Gi"),
    ("relative mount", {"volumes": [{"name": "a", "path": "data"}]}, "spec.volumes[0].path", "begin it with /"),
    ("mount over root", {"volumes": [{"name": "a", "path": "//"}]}, "spec.volumes[0].path", "below"),
    ("climbing mount", {"volumes": [{"name": "a", "path": "/a/../b"}]}, "spec.volumes[0].path", "'..'"),
    ("mount over processes", {"volumes": [{"name": "a", "path": "/proc/x"}]}, "spec.volumes[0].path", "another path"),
    ("code over devices", {"code": {"digest": DIGEST, "path": "/dev"}}, "spec.code.path", "another path"),
    ("no digest", {"code": {"digest": "sha256:zz"}}, "spec.code.digest", "kaji run --code"),
    ("mode", {"files": {"digest": DIGEST, "items": [{"path": "/a", "mode": "8"}]}}, "spec.files.items[0].mode", ""),
    ("file twice", {"files": {"digest": DIGEST, "items": [{"path": "/a"}] * 2}}, "spec.files.items[1].path", "another"),
    ("no files", {"files": {"digest": DIGEST, "items": []}}, "spec.files.items", ""),
    ("code as number", {"code": 5}, "spec.code", "digest"),
    ("our own folder", {"secrets": [{"name": "a", "path": "/kajitori/x"}]}, "spec.secrets[0].path", "another path"),
    ("volume without source", {"volumes": [{"path": "/a"}]}, "spec.volumes[0]", "exactly one"),
    ("volume name", {"volumes": [{"name": "A_b", "path": "/a"}]}, "spec.volumes[0].name", "lower-case"),
    ("key without env", {"secrets": [{"name": "a", "key": "k"}]}, "spec.secrets[0]", "both"),
    ("network name", {"networks": [{"name": "_x"}]}, "spec.networks[0].name", "letters"),
    ("network twice", {"networks": [{"name": "a"}, {"name": "a"}]}, "spec.networks[1].name", "once"),
    ("an alias of the member", {"networks": [{"name": "a", "aliases": ["localhost"]}]}, "spec.networks[0].aliases", ""),
    ("networks of a node", {"networks": [{"name": "a"}], "hostNetwork": True}, "spec.networks", "hostNetwork"),
    (
        "a name of a sweep",
        {"networks": [{"name": "a", "aliases": ["b"]}], "array": "0-1"},
        "spec.networks[0].aliases",
        "array",
    ),
    ("port twice", {"ports": [80, 80]}, "spec.ports[1]", "once"),
    ("port too high", {"ports": [65536]}, "spec.ports[0]", ""),
    ("user by name", {"user": "alice"}, "spec.user", "1000:1000"),
    ("torchrun service", {"type": "service", "launcher": "torchrun"}, "spec.launcher", "batch"),
    ("mpi service", {"type": "service", "launcher": "mpi", "args": ["a"]}, "spec.launcher", "batch"),
    ("mpi without a program", {"launcher": "mpi"}, "spec.command", "mpirun"),
    (
        "users over the launcher's",
        {"launcher": "mpi", "args": ["a"], "volumes": [{"hostPath": "/p", "path": "/etc/passwd"}]},
        "spec.volumes",
        "another path",
    ),
    ("c10d by hand", {"launcher": "torchrun", "env": {"PET_RDZV_ID": "a"}}, "spec.env.PET_RDZV_ID", "leave"),
    ("rendezvous by hand", {"launcher": "torchrun", "env": {"MASTER_ADDR": "a"}}, "spec.env.MASTER_ADDR", "leave"),
    ("blind toleration", {"tolerations": [{"effect": "NoSchedule"}]}, "spec.tolerations[0]", "key"),
    ("upper-case image", {"image": "Bert"}, "spec.image", "registry/bert:3"),
    ("NUL", {"command": ["a\0b"]}, "spec.command[0]", ""),
    ("too much text", {"args": ["x" * (MAX_TEXT_BYTES // 2), "y" * (MAX_TEXT_BYTES // 2)]}, "spec", "volume"),
    ("a word that no program could be given", {"args": ["x" * (MAX_TEXT_BYTES + 1)]}, "spec.args[0]", "file"),
    ("too many words", {"args": [""] * 300_000}, "spec.args", ""),
    ("words that are larger than their text", {"args": ["<>&" * 8000]}, "spec", "file"),
    ("too many variables", {"env": {f"A{number}": "" for number in range(5000)}}, "spec.env", ""),
    (
        "large paths",
        {"volumes": [{"hostPath": f"/{number:01000}/{'x' * 3090}", "path": f"/v{number}"} for number in range(64)]},
        "spec",
        "fewer",
    ),
    ("image as number", {"image": 3}, "spec.image", '"3"'),
    ("true is no number", {"replicas": True}, "spec.replicas", ""),
    ("no members", {"replicas": 0}, "spec.replicas", ""),
    ("label value", {"labels": {"team": "a b"}}, "spec.labels.team", "letters"),
    ("label key", {"labels": {"a b": "c"}}, "spec.labels['a b']", "DOMAIN/NAME"),
]


@pytest.mark.parametrize(("document", "field", "hint"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_fault_has_its_field_and_a_hint(document: dict[str, Any], field: str, hint: str) -> None:
    found = faults({"image": "a"} | document)
    assert len(found) == 1
    if field:
        assert hint in found[field].hint
    else:
        assert next(iter(found.values())).code == "RequestAboveLimit"


def test_dev_shm_and_cgroups_may_be_mount_paths() -> None:
    """A user may bring shared memory, and drivers need such paths."""
    volumes = [{"name": "v", "path": "/dev/shm"}, {"name": "w", "path": "/sys/fs/cgroup"}]
    assert [volume.path for volume in parse_spec({"image": "a", "volumes": volumes}).volumes] == [
        "/dev/shm",
        "/sys/fs/cgroup",
    ]


def test_paths_of_mounts_must_differ() -> None:
    """Those of checkpoint, volumes, secrets and shared memory."""
    found = faults(
        {
            "image": "a",
            "checkpoint": {"path": "/a"},
            "volumes": [{"name": "v", "path": "/a/"}, {"name": "w", "path": "/dev/shm"}],
            "secrets": [{"name": "s", "path": "/a"}],
            "resources": {"shm": "1Gi"},
        }
    )
    assert set(found) == {"spec.volumes[0].path", "spec.volumes[1].path", "spec.secrets[0].path"}


@pytest.mark.parametrize("document", [None, [], "run", 3, True])
def test_a_document_that_is_no_mapping_is_one_fault(document: object) -> None:
    assert list(faults(document, where="file.yaml: spec")) == ["file.yaml: spec"]


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "python:3.11",
        "registry/bert:3",
        "localhost:5000/a/b_c:latest",
        "GHCR.io/a/b",
        "a@sha256:" + "0" * 64,
        "nvcr.io/nvidia/pytorch:24.05-py3",
    ],
)
def test_image_names_of_docker_are_accepted(image: str) -> None:
    assert parse_spec({"image": image}).image == image


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
_FIELDS = st.sampled_from([info.alias or name for name, info in RunSpec.model_fields.items()])


@given(st.one_of(_JSON, st.dictionaries(st.one_of(_FIELDS, st.text(max_size=8)), _JSON, max_size=6)))
def test_any_document_is_a_spec_or_has_faults(document: Any) -> None:
    """Each fault has a field and a message."""
    try:
        spec = parse_spec(document)
    except InvalidInput as error:
        assert all(fault.field.startswith("spec") and fault.message for fault in error.faults)
    else:
        assert parse_spec(to_document(spec)) == spec


def test_entrypoint_and_arguments_become_command_and_args() -> None:
    """As in Docker."""
    assert container_words(None, ["python", "a.py"]) == ([], ["python", "a.py"])
    assert container_words("bash", ["-c", "ls"]) == (["bash"], ["-c", "ls"])
    assert container_words("", ["python", "a.py"]) == (["python"], ["a.py"])


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "-a", "a-", "a" * 49, "a.b", "a\n", None, 3])
def test_names_that_are_no_host_names_are_refused(name: Any) -> None:
    """The message has the rule."""
    fault = name_fault(name)
    assert fault is not None
    assert "lower-case" in fault.hint


def test_names_up_to_the_limit_are_accepted() -> None:
    check_name("bert")
    check_name("a" * 48)
    with pytest.raises(InvalidInput):
        check_name("a" * 49)


@given(st.text(max_size=60), st.text(max_size=20))
def test_generated_names_are_valid_and_deterministic(image: str, randomness: str) -> None:
    """They depend only on the randomness."""
    name = make_name(image, randomness)
    check_name(name)
    assert name == make_name(image, randomness)


def test_generated_names_contain_the_image_and_differ() -> None:
    names = {make_name("registry:5000/vision/ResNet_50:v2@sha256:00", str(seed)) for seed in range(50)}
    assert all(name.startswith("resnet-50-") for name in names)
    assert len(names) > 45


def test_an_elastic_gang_has_a_minimum_and_a_maximum() -> None:
    """If these are equal it is an ordinary gang."""
    spec = parse_spec({"image": "x", "replicas": 32, "minReplicas": 8, "launcher": "torchrun"})
    assert (spec.fewest, spec.members, spec.members_at_once) == (8, 32, 32)
    assert to_document(spec) == {"image": "x", "replicas": 32, "minReplicas": 8, "launcher": "torchrun"}
    assert parse_spec({"image": "x", "replicas": 8, "minReplicas": 8}).fewest is None
    assert parse_spec({"image": "x", "replicas": 8}).fewest is None


ELASTIC_FAULTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the wrong way round": (
        {"replicas": 8, "minReplicas": 32},
        {"spec.minReplicas": "minReplicas is 32, but replicas is only 8"},
    ),
    "without a most": (
        {"minReplicas": 2},
        {"spec.minReplicas": "minReplicas is 2, but replicas is only 1"},
    ),
    "none at all": ({"replicas": 3, "minReplicas": 0}, {"spec.minReplicas": "0 is not allowed"}),
    "of a sweep": (
        {"array": "0-9", "minReplicas": 2},
        {"spec.minReplicas": "a sweep cannot be elastic"},
    ),
    "all at once": (
        {"launcher": "mpi", "command": ["mpirun"], "replicas": 3, "minReplicas": 5},
        {
            "spec.minReplicas": "minReplicas is 5",
            "spec.launcher": "an MPI gang cannot be elastic",
        },
    ),
    "a service": (
        {"type": "service", "replicas": 3, "minReplicas": 2},
        {"spec.type": "a service cannot be elastic"},
    ),
}


@pytest.mark.parametrize("case", ELASTIC_FAULTS)
def test_all_fields_that_an_elastic_gang_cannot_have_are_refused(case: str) -> None:
    """At once."""
    fields, said = ELASTIC_FAULTS[case]
    found = faults({"image": "x", **fields})
    assert found.keys() == said.keys()
    assert all(found[field].message.startswith(words) for field, words in said.items()), found


def test_a_gang_may_say_when_it_counts_as_stuck() -> None:
    spec = parse_spec({"image": "x", "stuckAfter": "20m", "onStuck": "restart", "restarts": 3})
    assert (spec.stuck_after_seconds, spec.on_stuck) == (1200, "restart")
    assert to_document(spec) == {"image": "x", "stuckAfter": "20m", "onStuck": "restart", "restarts": 3}


def test_all_faults_of_stuck_fields_are_told_at_once() -> None:
    found = faults({"image": "x", "array": "0-9", "stuckAfter": "20m", "onStuck": "restart"})
    assert found.keys() == {"spec.stuckAfter", "spec.onStuck"}
    assert all(fault.message.startswith("only gangs are watched") for fault in found.values())
    found = faults({"image": "x", "stuckAfter": "90s", "onStuck": "reboot"})
    assert found.keys() == {"spec.stuckAfter", "spec.onStuck"}
    assert found["spec.stuckAfter"].message == "1m30s is too short to call a run stuck"
    assert faults({"image": "x", "onStuck": "restart", "restarts": 0}).keys() == {"spec.onStuck"}


def test_a_health_check_has_dockers_defaults() -> None:
    """Text is for a shell, and a list for none."""
    check = parse_spec({"image": "x", "health": {"command": "pg_isready"}}).health
    assert check is not None and check.words == ["/bin/sh", "-c", "pg_isready"]
    assert (check.interval_seconds, check.timeout_seconds, check.retries) == (30, 30, 3)
    assert (check.start_period_seconds, check.start_interval_seconds) == (0, 5)
    listed = parse_spec({"image": "x", "health": {"command": ["/probe", "-v"], "startPeriod": "1m"}})
    assert listed.health is not None and listed.health.words == ["/probe", "-v"]
    assert to_document(listed)["health"] == {"command": ["/probe", "-v"], "startPeriod": "1m"}


def test_all_faults_of_a_health_check_are_reported_at_once() -> None:
    wrong = {"command": [], "interval": "0s", "timeout": "500ms", "retries": 0, "startPeriod": "-1s", "every": 3}
    found = faults({"image": "x", "health": wrong})
    assert found.keys() == {f"spec.health.{field}" for field in wrong}
    assert "no command" in found["spec.health.command"].message
    for command in (" ", [""], ["a", 3], 3, {"a": "b"}, ["a"] * 300, "a\0b"):
        assert faults({"image": "x", "health": {"command": command}}).keys() == {"spec.health.command"}
    assert faults({"image": "x", "health": {"interval": "1m"}}).keys() == {"spec.health.command"}
