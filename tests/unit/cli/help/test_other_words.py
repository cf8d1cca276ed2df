"""Verbs of docker and Slurm work, or are answered with the command to use here."""

from __future__ import annotations

import re

import click
import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

from kajitori.cli.app import VERBS, kaji
from kajitori.cli.help.other_words import DOCKER, SLURM, WORDS, answer

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
def test_every_verb_of_docker_and_slurm_has_an_answer(tool: str, words: list[str]) -> None:
    for word in words:
        assert word in VERBS or WORDS[word].tool == tool, word


def test_no_existing_verb_has_an_answer() -> None:
    assert not WORDS.keys() & VERBS.keys()


@pytest.mark.parametrize("word", WORDS)
def test_answers_name_commands_that_exist(word: str) -> None:
    """Their options exist as well."""
    with click.Context(kaji) as ctx:
        for suggestion in re.findall(r"kaji ([^,;(]+)", WORDS[word].instead):
            verb, *rest = suggestion.split()
            command = kaji.get_command(ctx, verb)
            assert command is not None, suggestion
            if isinstance(command, click.Group) and rest:
                command = command.get_command(ctx, rest[0])
                assert command is not None, suggestion
            known = {option for parameter in command.params for option in parameter.opts}
            options = [word for word in rest[: _own(rest)] if word.startswith("-") and len(word) > 1]
            for option in options:
                assert option in known or {f"-{letter}" for letter in option[1:]} <= known, suggestion


def _own(rest: list[str]) -> int:
    """Return how many of the words belong to the verb, rather than to the program that it runs."""
    return next((index for index, word in enumerate(rest) if word in ("RUN", "IMAGE")), len(rest))


def test_a_verb_of_slurm_exits_with_2_and_names_kajis_verb() -> None:
    """No server is asked; options of the other tool do not matter."""
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
    assert "Did you mean rm or run?" in invoke(api, "rum").stderr
