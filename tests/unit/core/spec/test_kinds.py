"""Kinds of runs: which runs count as the same program."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.spec.kinds import Kind, kind_of, kind_of_stored
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import to_document


def kind(owner: str = "ada", namespace: str = "vision", **spec: Any) -> Kind:
    return kind_of(parse_spec({"image": "bert:3", "command": ["python", "train.py"], **spec}), namespace, owner)


@pytest.mark.parametrize(
    "change",
    [
        {"image": "bert:4"},
        {"image": "docker.io/library/bert@sha256:" + "0" * 64},
        {"replicas": 8},
        {"env": {"LR": "1"}},
        {"resources": {"memory": "64Gi", "cpu": 8}},
        {"code": {"digest": "sha256:" + "0" * 64}},
    ],
)
def test_tags_sizes_and_limits_do_not_change_the_kind(change: dict[str, Any]) -> None:
    """Another build, more members, other limits, edited code: the program is the same."""
    assert kind(**change) == kind()


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "bob"},
        {"namespace": "speech"},
        {"image": "gpt:3"},
        {"image": "registry.example:5000/bert:3"},
        {"command": ["python", "eval.py"]},
        {"args": ["--fast"]},
        {"type": "service"},
        {"launcher": "torchrun"},
        {"resources": {"gpu": 8}},
    ],
)
def test_program_user_and_namespace_change_the_kind(change: dict[str, Any]) -> None:
    assert kind(**change) != kind()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--lr", "3e-4"], ["--lr", "0.1"]),
        (["--seed=17"], ["--seed=-4"]),
        (["--layers", "1,2,3"], ["--layers", "4,5,16"]),
        (["--out", "/data/run-17/ckpt_2"], ["--out", "/data/run-3/ckpt_44"]),
        (["--out=~/runs/17"], ["--out=~/runs/2026"]),
        (["-c", "train(3, 0.5)"], ["-c", "train(12, .1)"]),
    ],
)
def test_numbers_in_arguments_do_not_change_the_kind(one: list[str], other: list[str]) -> None:
    """A sweep, another seed, another output folder."""
    assert kind(args=one) == kind(args=other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--model", "llama-7b"], ["--model", "llama-70b"]),
        (["--model", "meta/Llama-2-7b-hf"], ["--model", "meta/Llama-2-70b-hf"]),
        (["--size", "small"], ["--size", "large"]),
        (["train3.py"], ["train4.py"]),
        (["--data", "/data/imagenet21k"], ["--data", "/data/imagenet1k"]),
        (["a b"], ["a", "b"]),
    ],
)
def test_names_that_contain_numbers_change_the_kind(one: list[str], other: list[str]) -> None:
    """Another model has another size."""
    assert kind(args=one) != kind(args=other)


@given(
    st.fixed_dictionaries(
        {"image": st.sampled_from(["bert:3", "a.b/c/d@sha256:" + "a" * 64])},
        optional={
            "command": st.lists(st.text("ab/-=.0123456789e", min_size=1), max_size=3),
            "args": st.lists(st.text("ab/-=.0123456789e", min_size=1), max_size=3),
            "launcher": st.sampled_from(["none", "torchrun"]),
            "resources": st.fixed_dictionaries({"gpu": st.integers(0, 8)}),
        },
    )
)
def test_a_stored_runs_kind_is_that_of_its_spec(document: dict[str, Any]) -> None:
    """Defaults that are written out do not matter."""
    spec = parse_spec(document)
    for stored in (document, to_document(spec), to_document(spec, with_defaults=True)):
        assert kind_of_stored(msgspec.json.encode(stored), "vision", "ada") == kind_of(spec, "vision", "ada")


@pytest.mark.parametrize("stored", [b"{}", b"[]", b'{"image": 3}', b"{"])
def test_an_unreadable_spec_has_no_kind(stored: bytes) -> None:
    """Users with kubectl can write anything."""
    assert kind_of_stored(stored, "vision", "ada") is None
