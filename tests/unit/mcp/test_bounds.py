"""Limits of what an assistant reads."""

from __future__ import annotations

import json

from kajitori.mcp.bounds import HIDDEN, MOST_CHARACTERS, bounded, shown, without_secret_values


def test_a_large_answer_is_cut_and_says_what_is_missing() -> None:
    """A gang of 7,500 members must not fill an assistant's memory."""
    members = [{"rank": rank, "node": f"gpu-{rank:05}", "message": "image " * 50} for rank in range(7500)]
    found, cut = bounded({"members": members, "phase": "Starting"})
    assert len(json.dumps(found)) <= MOST_CHARACTERS
    assert found["phase"] == "Starting" and found["members"][0]["rank"] == 0
    assert cut[0] == f"members: {len(found['members'])} of 7500 items"


def test_objects_of_a_large_answer_keep_all_of_their_fields() -> None:
    """Fields that a tool's schema promises are not cut, however large other parts are."""
    row = {f"field{number}": "x" * 200 for number in range(30)}
    found, _ = bounded({"rows": [[row] * 20] * 20, **row})
    assert len(found) == 31 and found["rows"][0][0].keys() == row.keys()


def test_a_small_answer_is_unchanged() -> None:
    document = {"a": [1, None, True], "b": {"c": "line\nline\t"}}
    assert bounded(document) == (document, [])


def test_secrets_and_invisible_characters_are_not_shown() -> None:
    assert shown("\x1b[31mred\u200b \U000e0041 token-1 é", ["token-1"]) == f" [31mred    {HIDDEN} é"
    assert shown("x" * 10, most=4) == "xxxx… (6 more characters)"
    assert bounded({"a": {"token-1": ["token-1"]}}, ["token-1", ""])[0] == {"a": {HIDDEN: [HIDDEN]}}


def test_variables_that_look_like_secrets_have_no_value() -> None:
    spec = {"image": "x", "env": {"LR": "1", "WANDB_API_KEY": "abc", "db_password": "abc"}}
    assert without_secret_values(spec)["env"] == {"LR": "1", "WANDB_API_KEY": HIDDEN, "db_password": HIDDEN}
    assert without_secret_values({"env": None}) == {"env": None}
