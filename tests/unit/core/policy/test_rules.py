"""The policy in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.model import Policy
from kajitori.core.policy.rules import RuleGroup, rules_of

SITE = Path(__file__).parents[4] / "examples/policy/site.yaml"


def texts(groups: tuple[RuleGroup, ...]) -> dict[str, str]:
    """Return the sentences by their field; several of one field are joined."""
    found: dict[str, str] = {}
    for rule in (rule for group in groups for rule in group.rules):
        found[rule.field] = f"{found[rule.field]} {rule.text}" if rule.field in found else rule.text
    return found


def test_a_policy_says_its_limits_defaults_and_guarantees() -> None:
    said = texts(rules_of(parse_policy(SITE.read_bytes())))
    expected = {
        "images.allow": "These images may run: registry.example.org/*.",
        "defaults.cpu": "Each member gets 4 cores.",
        "defaults.timeLimit": "A run is ended after 2d.",
        "ceilings.run.timeLimit": "Time limit: 14d.",
        "ceilings.run.gpu": "All members of a run together: 128 GPUs.",
        "security.allowRoot": "Programs may not run as root.",
        "templates.pytorch": "pytorch: Distributed training with torchrun on whole nodes.",
        "endedRuns.keepFor": "A run that has ended is removed 30d after its end, without its checkpoint.",
    }
    assert expected.items() <= said.items()
    assert said["guarantees"].startswith("The namespace vision is guaranteed 64 h100.")


@pytest.mark.parametrize("text", ["{}", SITE.read_text()])
def test_each_rule_is_a_sentence_and_names_a_field(text: str) -> None:
    groups = rules_of(parse_policy(text.encode()))
    aliases = {field.alias or name for name, field in Policy.model_fields.items()}
    assert len(groups) >= 10
    for group in groups:
        for rule in group.rules:
            assert rule.text[-1] == "." and "None" not in rule.text and "  " not in rule.text, rule
            assert rule.field.split(".")[0] in aliases, rule


@pytest.mark.parametrize(
    ("written", "field", "sentence"),
    [
        ("memoryWithoutLimit: refuse", "memoryWithoutLimit", "A run without a memory limit is refused."),
        ("preemption: {enabled: false}", "preemption.enabled", "No running run is preempted."),
        (
            "idleGpus: {park: {after: 2d, warning: 2h}}",
            "idleGpus.park",
            "A run whose owner does not answer is parked after 2d, with a warning 2h before; nothing is deleted.",
        ),
        (
            "teams: {vision: {groups: [oidc:vision], leads: [oidc:heads], namespaces: [vision, lab]}}",
            "teams.vision",
            "vision works in vision and lab; submit runs: oidc:vision; lead: oidc:heads.",
        ),
        (
            "volumes: {data: {nfs: {server: nas, path: /data}, readOnly: true}}",
            "volumes.data",
            "Runs may mount data: /data of nas, read-only.",
        ),
        ("defaults: {network: {to: []}}", "defaults.network", "A run that does not say may not connect to anything"),
    ],
)
def test_what_operators_change_is_said(written: str, field: str, sentence: str) -> None:
    assert texts(rules_of(parse_policy(written.encode())))[field].startswith(sentence)
