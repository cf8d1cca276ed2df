"""What runs asked for, as named texts."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.spec.comparing import asked_for


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("python3 train.py --lr 3e-4 --fp16 --seed=7", {"--lr": "3e-4", "--fp16": "yes", "--seed": "7"}),
        ("python3 train.py --shift -1.5 -v", {"--shift": "-1.5", "-v": "yes"}),
        ("python3 train.py optimizer.lr=0.1 +data.split=a=b", {"optimizer.lr": "0.1", "+data.split": "a=b"}),
        ("python3 train.py --layer 1 --layer 2", {"--layer": "1, 2"}),
    ],
)
def test_options_of_the_program_stand_by_themselves(words: str, named: dict[str, str]) -> None:
    """Its other words remain together, also if a shell starts it."""
    expected = {"args": "python3 train.py"} | named
    assert asked_for({"args": words.split()}) == expected
    assert asked_for({"args": ["/bin/bash", "-lc", words]}) == expected


def test_a_shell_line_that_cannot_be_split_stays_whole() -> None:
    """A quote that is not closed is the user's fault, and no reason to compare nothing."""
    assert asked_for({"args": ["sh", "-c", "echo 'a"]}) == {"args": """sh -c 'echo '"'"'a'"""}


def test_fields_have_their_paths_as_names() -> None:
    """Empty ones, and those that say what became of the run later, are left out."""
    volumes = [
        {"name": "data", "path": "/data", "readOnly": True},
        {"name": "home", "path": "/h", "readOnly": False},
    ]
    spec: dict[str, Any] = {
        "image": "a:1",
        "command": [],
        "resources": {"gpu": 0, "gpuType": None},
        "env": {"SEED": "7"},
    }
    spec |= {"tty": False, "volumes": volumes, "stopped": True, "resumes": 2}
    assert asked_for(spec) == {
        "image": "a:1",
        "resources.gpu": "0",
        "env.SEED": "7",
        "tty": "no",
        "volumes": "name=data,path=/data,readOnly=yes name=home,path=/h",
    }


def test_a_spec_that_only_kubectl_can_write_is_compared_as_far_as_it_can_be_read() -> None:
    """Such a Run is shown unchanged everywhere."""
    assert asked_for({"args": "train", "replicas": "many", "env": ["A"]}) == {
        "args": "train",
        "replicas": "many",
        "env": "A",
    }
