"""examples/policy/site.yaml: a complete policy for operators to begin with."""

from __future__ import annotations

from pathlib import Path

from kajitori.core.policy.file import parse_policy

SITE = Path(__file__).parents[3] / "examples" / "policy" / "site.yaml"


def test_the_example_of_a_complete_policy_is_valid() -> None:
    policy = parse_policy(SITE.read_bytes())
    assert [(guarantee.namespace, guarantee.gpus) for guarantee in policy.guarantees] == [("vision", 64), ("nlp", 32)]
    assert policy.preflight.image and policy.start.image
    assert policy.ended_runs.keep_for_seconds == 30 * 86_400


def test_every_section_of_the_example_has_a_comment() -> None:
    blocks = SITE.read_text().strip().split("\n\n")
    assert all(block.startswith("#") for block in blocks if not block.startswith("guarantees:"))
