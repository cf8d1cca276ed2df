"""The policy file: every fault at once with its line, and what the built-in policies allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.documents.files import MAX_BYTES
from kajitori.core.documents.reference import fields_of, reference_page
from kajitori.core.policy.file import Policy, default_policy, own_machine_policy, parse_policy, with_first_step
from kajitori.core.policy.queue.formula import Formula
from kajitori.core.policy.queue.order import OrderRules
from kajitori.core.spec.parts import Resources
from kajitori.core.spec.run import RunSpec
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.errors import Fault, InvalidInput

SPEC = {RunSpec.__module__, Resources.__module__}
"""Modules of types that the reference of runs describes."""


def faults(text: str | bytes | dict[str, Any]) -> dict[str, Fault]:
    """Return the faults of a policy by field."""
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text)
    return {fault.field: fault for fault in caught.value.faults}


FAULTY = """
defaults:
  cpu: lots
  memroy: 3Gi
  cpu: 2
ceilings:
  member: {gpu: -1}
volumes:
  imagenet: {claim: x, hostPath: /a}
  Bad_Name: {claim: x}
priorities:
  urgent: {value: 3}
gpu:
  typeLabel: x
  resources: {rdma/hca: many}
rendezvous: {firstPort: 3000, lastPort: 2000}
checkpoint: {kind: folder}
mounts: {hostPaths: [data]}
"""


def test_all_faults_are_reported_with_path_and_line() -> None:
    found = faults(FAULTY)
    assert set(found) == {
        "defaults.cpu (line 5)",
        "defaults.memroy (line 4)",
        "ceilings.member.gpu (line 7)",
        "volumes.imagenet (line 9)",
        "volumes.Bad_Name (line 10)",
        "priorities.urgent (line 12)",
        "gpu.typeLabel (line 14)",
        "gpu.resources (line 15)",
        "rendezvous.lastPort (line 16)",
        "checkpoint (line 17)",
        "mounts.hostPaths[0] (line 18)",
    }
    assert found["defaults.memroy (line 4)"].hint == "did you mean memory?"
    assert found["gpu.typeLabel (line 14)"].hint == "did you mean typeLabels?"
    found = faults("ceilings: {member: {gpus: 8}}\nguarantees: [{namespace: a, gpu: 8}]\nimages: {deny: '*:latest'}")
    assert found["ceilings.member.gpus (line 1)"].hint == "did you mean gpu?", "and not guarantees.gpus"
    assert found["guarantees[0].gpu (line 2)"].hint == "did you mean gpus?"
    deny = found["images.deny (line 3)"]
    assert (deny.message, deny.hint) == ("must be a list, not the text '*:latest'", 'write a list: ["*:latest"]')
    with pytest.raises(InvalidInput) as refused:
        parse_policy("pods: {memoryWithoutLimit: refuse}")
    assert refused.value.faults[0].hint == "it belongs outside, at the top of the file"


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("a: [", "line 2, column 1", "not valid YAML"),
        ("- 1", "policy", "mapping"),
        ("text", "policy", "mapping"),
        ("defaults: &x {cpu: 1}\nceilings: *x", "line 2", "alias"),
        ("a: " + "[" * 30 + "]" * 30, "line 1", "nested"),
        ("a: " + "[" * 100_000, "line 1", "nested"),
        ("\0", "policy", "not valid YAML"),
        ("a: 1\n---\nb: 2", "line 2, column 1", "not valid YAML"),
        ("a: " + "x" * MAX_BYTES, "policy", "bytes"),
        ("!!python/object:os.system {}", "line 1, column 1", "not valid YAML"),
        ("? [1]\n: 2", "line 1, column 3", "not valid YAML"),
        (b"\xff\xfe\xff", "policy", "not valid YAML"),
    ],
)
def test_invalid_and_malicious_yaml_is_refused_with_its_line(text: str | bytes, field: str, message: str) -> None:
    """No traceback is shown."""
    found = faults(text)
    assert list(found) == [field]
    assert message in found[field].message


@given(st.one_of(st.text(max_size=60), st.text(alphabet="abc:- \n{}[]&*!|>'\"0", max_size=60)))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_policy(text), Policy)
    except InvalidInput as error:
        assert all(fault.message for fault in error.faults)


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "---\n"])
def test_an_empty_file_is_the_default_policy(text: str) -> None:
    assert parse_policy(text) == default_policy()


def test_defaults_above_ceilings_are_refused() -> None:
    """Such a policy would refuse runs that set nothing; the mistake is found when the file is read."""
    found = faults("ceilings: {member: {memory: 1Gi}, run: {restarts: 1}}")
    assert set(found) == {"ceilings.member.memory (line 1)", "ceilings.run.restarts (line 1)"}
    memory = found["ceilings.member.memory (line 1)"]
    assert memory.message == "1Gi is below defaults.memory, which is 2Gi: runs that leave it out would be refused"
    assert memory.hint == "set defaults.memory to at most 1Gi, or raise the ceiling"
    assert parse_policy("{ceilings: {member: {memory: 1Gi}}, defaults: {memory: 512Mi}}").defaults.memory_bytes == 2**29


CONTRADICTORY = """
default:
  cpu: 2
ceilings:
  member: {memory: 1Gi}
defaults:
  network: {to: [intrenet]}
templates:
  torch: {teams: [vison], spec: {image: a}}
teams:
  vision: {groups: [vision]}
gpu: {typeLabel: x}
"""


def test_contradictions_are_reported_together_with_faulty_fields() -> None:
    """Also if an unrelated section cannot be read. What depends on a section that cannot be read is not guessed at."""
    expected = {
        "default (line 2)": "did you mean defaults",
        "ceilings.member.memory (line 5)": "set defaults.memory to at most 1Gi, or raise the ceiling",
        "defaults.network.to[0] (line 7)": "did you mean internet",
        "templates.torch.teams[0] (line 9)": "did you mean vision",
        "gpu.typeLabel (line 12)": "did you mean typeLabels",
    }
    found = faults(CONTRADICTORY)
    assert {field: fault.hint.partition("?")[0] for field, fault in found.items()} == expected
    found = faults(CONTRADICTORY.replace("groups: [vision]", "groups: 7"))
    assert "templates.torch.teams[0] (line 9)" not in found
    assert "teams.vision.groups (line 11)" in found


def test_without_a_policy_file_no_run_gets_dangerous_rights() -> None:
    """Neither root, privileges, the node's network nor the node's folders."""
    policy = default_policy()
    assert not policy.security.allow_root
    assert not policy.security.allow_privileged
    assert not policy.security.allow_host_network
    assert not policy.security.allow_privilege_escalation
    assert policy.security.drop_capabilities == ["ALL"]
    assert policy.security.seccomp_profile == "RuntimeDefault"
    assert policy.mounts.host_paths == []
    assert policy.memory_without_limit == "default"
    assert policy.start.restart_grace_seconds == 5


def test_on_the_users_own_machine_own_folders_may_be_mounted() -> None:
    """Checkpoints are in a folder."""
    policy = own_machine_policy("/home/a", mounts=False, checkpoint_root="/home/a/ckpt", folders=["/srv", "/home/a"])
    assert policy.mounts.host_paths == ["/home/a", "/srv"]
    assert policy.mounts.own_path_only
    assert policy.checkpoint.kind == "folder"
    assert policy.checkpoint.root == "/home/a/ckpt"
    assert policy.security.allow_root
    assert not policy.security.allow_privileged
    able = own_machine_policy("/home/a", mounts=True, checkpoint_root="/c")
    assert not able.mounts.own_path_only
    assert list(able.volumes) == ["scratch", "scratch-memory"] and not policy.volumes


def test_thousands_of_simulated_nodes_have_more_time_to_start_members() -> None:
    """With two minutes, 2,100 runs on 7,500 nodes gave up together, before the first of their members had started."""
    few, many = (
        own_machine_policy("/home/a", mounts=False, checkpoint_root="/c", simulated_nodes=nodes) for nodes in (0, 7500)
    )
    assert (few.start.deadline_seconds, many.start.deadline_seconds) == (120, 870)


def test_omitted_fields_keep_their_default() -> None:
    """One priority class does not change the others."""
    policy = parse_policy("defaults: {memory: 4g}\npriorities: {high: {value: 7, className: urgent}}\n")
    assert policy.defaults.memory_bytes == 4 * 2**30
    assert policy.defaults.cpu_millis == 1000
    assert policy.priorities["high"].value == 7
    assert policy.priorities["low"].value < policy.priorities["normal"].value
    for wrong in ("{high: {value: -1}}", "{low: {value: 1}}", "{high: {value: -100}, low: {value: 100}}"):
        with pytest.raises(InvalidInput, match="are not in descending order"):
            parse_policy(f"priorities: {wrong}")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-A100-SXM4-40GB", "a100"),
        ("Tesla-T4", "t4"),
        ("NVIDIA-L4", "l4"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-GeForce-RTX-4090", "geforce-rtx-4090"),
        ("AMD_Instinct_MI300X_OAM", "instinct-mi300x-oam"),
        ("H100", "h100"),
        ("", ""),
    ],
)
def test_gpu_products_get_friendly_names(product: str, name: str) -> None:
    """Unknown ones get a normalised name."""
    assert default_policy().gpu.type_of({"nvidia.com/gpu.product": product}) == name


def test_the_operators_gpu_label_takes_precedence() -> None:
    """It comes before the label of the vendor's discovery."""
    labels = {"kajitori.dev/gpu-type": "a100-fast", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    policy = parse_policy({"gpu": {"types": {"fast": ["a100-fast"]}}})
    assert policy.gpu.type_of(labels) == "fast"


def test_denied_images_stay_denied_if_they_are_also_allowed() -> None:
    """A pattern is compared with the full name."""
    policy = parse_policy({"images": {"allow": ["python:*", "ghcr.io/lab/*"], "deny": ["*:latest"]}})
    assert not policy.images.refusal("python:3.11")
    assert not policy.images.refusal("ghcr.io/lab/bert:3")
    assert policy.images.refusal("ghcr.io/lab/bert")
    assert policy.images.refusal("ghcr.io/other/bert:3")
    assert policy.images.refusal("evil/python:3.11")


def test_a_first_step_needs_both_image_and_server() -> None:
    """With only one of them the step would silently be missing."""
    for start in ({"image": "kajitori"}, {"server": "http://x"}):
        assert "image and server must be set together" in faults({"start": start})["start"].message


@pytest.mark.parametrize(
    ("server", "kept"),
    [
        ("http://kajitori.kajitori.svc:8600", "http://kajitori.kajitori.svc:8600"),
        ("https://kaji.example.org/base/", "https://kaji.example.org/base"),
        ("http://[fd00::1]:8600", "http://[fd00::1]:8600"),
        ("kaji.example.org", None),
        ("ftp://x", None),
        ("http://x y", None),
        ("http://user:word@x", None),
        ("http://x?y=z", None),
        ("", None),
    ],
)
def test_the_first_steps_server_must_be_a_url(server: str, kept: str | None) -> None:
    document = {"start": {"image": "kajitori", "server": server}}
    if kept is None:
        assert "start.server" in faults(document)
    else:
        assert parse_policy(document).start.server == kept


def test_the_servers_authority_must_be_a_certificate_and_need_https(tmp_path: Path) -> None:
    pem = ensure_certificates(tmp_path).ca.read_text()
    start = {"image": "kajitori", "server": "https://x", "serverCA": pem}
    assert parse_policy({"start": start}).start.server_ca == pem
    assert "not a certificate" in faults({"start": start | {"serverCA": pem[:200]}})["start.serverCA"].message
    assert "https" in faults({"start": start | {"server": "http://x"}})["start"].message


def test_a_first_step_is_added_if_policy_has_none() -> None:
    """Other settings about starts stay."""
    filled = with_first_step(parse_policy({"start": {"deadline": "1m"}}), "kajitori", "http://127.0.0.1:1")
    assert (filled.start.image, filled.start.server) == ("kajitori", "http://127.0.0.1:1")
    assert filled.start.deadline_seconds == 60
    own = parse_policy({"start": {"image": "r/k:1", "server": "http://k:8600"}})
    assert with_first_step(own, "kajitori", "http://127.0.0.1:1") == own


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("{order: lifo}", "queue.order (line 1)", "did you mean fifo?"),
        ("{order: formula}", "queue (line 1)", "order formula needs the field formula"),
        ("{formula: waited}", "queue (line 1)", "order length does not use the field formula"),
        ("{order: formula, formula: wated * 2}", "queue.formula (line 1)", "did you mean waited?"),
        ("{order: formula, formula: 3}", "queue.formula (line 1)", "text"),
        ("{fairShare: 0}", "queue.fairShare (line 1)", "above 0"),
        ("{exponent: .nan}", "queue.exponent (line 1)", "finite"),
        ("{likely: 1.5}", "queue.likely (line 1)", "at most 1"),
        ("{halfLife: 0s}", "queue.halfLife (line 1)", "above zero"),
        ("{bound: -1}", "queue.bound (line 1)", "-1"),
    ],
)
def test_faults_of_the_queue_section_are_named(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_policy(f"queue: {text}")
    (fault,) = caught.value.faults
    assert fault.field == field
    assert says in str(fault)


def test_the_queues_rules_have_defaults_and_can_all_be_set() -> None:
    assert parse_policy("").queue.rules == OrderRules()
    said = "queue: {order: formula, formula: waited / expected, halfLife: 1d, bound: 0s, backlog: 2, fairShare: 1"
    assert parse_policy(said + ", backlogAtMost: 3d}").queue.rules == OrderRules(
        "formula",
        Formula("waited / expected"),
        half_life_seconds=86400,
        fair_share=1,
        bound_seconds=0,
        backlog_factor=2,
        most_backlog_seconds=3 * 86400,
    )


def test_members_are_bound_directly_everywhere_nowhere_or_on_pools() -> None:
    assert not default_policy().binding.binds_directly({"pool": "a"})
    pools = parse_policy({"binding": {"directlyOn": [{"pool": "a"}, {}]}}).binding
    assert pools.binds_directly({"pool": "a", "x": "y"})
    assert not pools.binds_directly({"pool": "b"})
    assert parse_policy({"binding": {"bind": "direct"}}).binding.binds_directly({})


def test_every_policy_field_has_a_text_for_the_reference() -> None:
    assert [field.path for field in fields_of(Policy, documented_elsewhere=SPEC) if not field.text] == []


def test_the_reference_has_every_section_and_its_defaults() -> None:
    """Defaults are in the notation of the file."""
    page = reference_page("The policy file", Policy, documented_elsewhere=SPEC)
    assert all(f"## {info.alias or name}" in page for name, info in Policy.model_fields.items())
    assert "- `defaults.memory`" in page
    assert "Default: `2Gi`" in page
    assert "- `volumes.<name>.claim`" in page
    assert "- `guarantees[].namespace`" in page
