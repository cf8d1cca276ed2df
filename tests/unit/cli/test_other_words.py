"""Verbs of other tools are done, or answered with the command that does it here."""

from __future__ import annotations

import re

import click
import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

from kajitori.cli.app import VERBS, kaji
from kajitori.cli.other_words import DOCKER, SLURM, WORDS, answer

DOCKERS = """
attach build builder buildx commit compose config container context cp create diff events exec export history image
images import info inspect kill load login logout logs manifest network node pause plugin port ps pull push rename
restart rm rmi run save search secret service stack start stats stop swarm system tag top trust unpause update version
volume wait
"""
SLURMS = """
sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag seff sgather sinfo sprio squeue sreport srun
sshare sstat strigger sview
"""


@pytest.mark.parametrize(("tool", "words"), [(DOCKER, DOCKERS.split()), (SLURM, SLURMS.split())])
def test_every_word_of_docker_and_slurm_has_an_answer(tool: str, words: list[str]) -> None:
    for word in words:
        assert word in VERBS or WORDS[word].tool == tool, word


def test_no_word_is_answered_that_is_done() -> None:
    assert not WORDS.keys() & VERBS.keys()


@pytest.mark.parametrize("word", WORDS)
def test_answers_name_commands_that_exist(word: str) -> None:
    """With options that these have."""
    with click.Context(kaji) as ctx:
        for said in re.findall(r"kaji ([^,;(]+)", WORDS[word].instead):
            verb, *rest = said.split()
            command = kaji.get_command(ctx, verb)
            assert command is not None, said
            if isinstance(command, click.Group) and rest:
                command = command.get_command(ctx, rest[0])
                assert command is not None, said
            known = {option for parameter in command.params for option in parameter.opts}
            options = [each for each in rest[: _own(rest)] if each.startswith("-") and len(each) > 1]
            for option in options:
                assert option in known or {f"-{letter}" for letter in option[1:]} <= known, said


def _own(rest: list[str]) -> int:
    """How many of the words are the verb's own, and not those of the program that it is to run."""
    return next((index for index, word in enumerate(rest) if word in ("RUN", "IMAGE")), len(rest))


def test_what_whoever_types_such_a_word_reads() -> None:
    """It asks no server, and exits as for wrong usage; options of the other tool do not matter."""
    api = FakeWebApi()
    result = invoke(api, "squeue", "--me", "-o", "%i")
    assert (result.exit_code, result.stdout, api.calls) == (2, "", [])
    assert result.stderr == (
        "kaji: squeue is a word of Slurm's that kaji does not have\n"
        "      here: kaji queue (who waits), kaji ps --all-users (all runs)\n"
    )
    assert "nodes from a registry" in invoke(api, "build", "--help").stderr
    assert answer("rum") is None
    assert "Did you mean rm?" in invoke(api, "rmm").stderr
