"""Exactly the files that git would ignore stay out of an archive."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kajitori.codepack.packing import list_folder
from kajitori.errors import InvalidInput

_NAMES = ["a", "b", "foo", "a.py", "foo.py", ".x", "a b", "ä", "A", "x\\y", "[a]", "#a", "!a"]
_SEGMENTS = ["a", "b", "foo", "*", "*.py", "?", "**", "a*", "[ab]", "[!a]", "[^a-c]", "f?o", ".*", "\\a", "*o", "a\\ b"]
_SEGMENTS += ["ä", "[[:upper:]]", "\\[a\\]", "\\#a", "\\!a", "a***b", "**a"]


def _packed(root: Path) -> list[str]:
    return [file.entry.path for file in list_folder(root).found]


def _write(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def _pattern(chance: random.Random) -> str:
    pattern = "/".join(chance.choice(_SEGMENTS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    pattern = "/" * (chance.random() < 0.25) + pattern + "/" * (chance.random() < 0.3)
    pattern = "!" * (chance.random() < 0.3) + pattern + "  " * (chance.random() < 0.05)
    return "#" * (chance.random() < 0.03) + pattern + "\\ " * (chance.random() < 0.02) + "\r" * (chance.random() < 0.05)


def _tree(root: Path, chance: random.Random, depth: int = 0) -> None:
    for name in chance.sample(_NAMES, chance.randint(1, 5)):
        if depth < 3 and chance.random() < 0.5:
            (root / name).mkdir()
            _tree(root / name, chance, depth + 1)
        else:
            (root / name).write_text("")
    if chance.random() < (0.3 if depth else 0.9):
        patterns = [_pattern(chance) for _ in range(chance.randint(1, 6))]
        (root / ".gitignore").write_text("".join(f"{pattern}\n" for pattern in patterns), newline="")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize("seed", range(4))
def test_ignored_files_are_those_of_git(tmp_path: Path, seed: int) -> None:
    """Random folders with random patterns, in several levels of .gitignore."""
    chance = random.Random(seed)
    for number in range(10):
        root = tmp_path / str(number)
        root.mkdir()
        _tree(root, chance)
        subprocess.run(["git", "-c", "core.excludesFile=", "init", "-q", str(root)], check=True)
        words = ["git", "-c", "core.excludesFile=", "-C", str(root), "ls-files", "-o", "-z", "--exclude-standard"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        expected = sorted(filter(None, said.split("\0")), key=str.encode)
        rules = {str(path.relative_to(root)): path.read_text() for path in root.rglob(".gitignore")}
        assert _packed(root) == expected, rules


def test_kajiignore_has_precedence(tmp_path: Path) -> None:
    """It excludes more, and includes what git excludes."""
    _write(
        tmp_path,
        {
            ".gitignore": "*.bin\nbuild/\n",
            ".kajiignore": "*.ipynb\n!model.bin\n",
            "model.bin": "",
            "other.bin": "",
            "notes.ipynb": "",
            "train.py": "",
            "build/x": "",
            "sub/.gitignore": "*.bin\n",
            "sub/.kajiignore": "!*.ipynb\n",
            "sub/model.bin": "",
            "sub/notes.ipynb": "",
        },
    )
    rest = ["sub/.gitignore", "sub/.kajiignore", "sub/notes.ipynb", "train.py"]
    assert _packed(tmp_path) == [".gitignore", ".kajiignore", "model.bin", *rest]


def test_the_git_folder_always_stays_out(tmp_path: Path) -> None:
    """Also the file of a worktree or a submodule; no rule includes it."""
    _write(tmp_path, {".kajiignore": "!.git\n!.git/**\n", ".git/config": "", "sub/.git": "gitdir: ../x", "sub/a": ""})
    assert _packed(tmp_path) == [".kajiignore", "sub/a"]


def test_the_repositorys_rules_apply_to_its_folders(tmp_path: Path) -> None:
    """Rules above the repository do not count."""
    _write(
        tmp_path,
        {
            ".gitignore": "*.py\n",
            "repo/.git/config": "",
            "repo/.gitignore": "*.pyc\n/src/model/data/\n/model/\n",
            "repo/src/.gitignore": "/model/*.log\n",
            "repo/src/model/.gitignore": "!keep.pyc\n",
            "repo/src/model/a.py": "",
            "repo/src/model/a.pyc": "",
            "repo/src/model/keep.pyc": "",
            "repo/src/model/a.log": "",
            "repo/src/model/sub/a.log": "",
            "repo/src/model/data/x": "",
        },
    )
    assert _packed(tmp_path / "repo/src/model") == [".gitignore", "a.py", "keep.pyc", "sub/a.log"]


def test_an_ignored_folder_can_be_packed_by_name(tmp_path: Path) -> None:
    _write(tmp_path, {".git/config": "", ".gitignore": "build/\n", "build/out/a": "", "build/out/b": ""})
    assert _packed(tmp_path / "build" / "out") == ["a", "b"]
    assert _packed(tmp_path) == [".gitignore"]


def test_an_ignore_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """As with git: only files in the folder count."""
    _write(tmp_path, {"rules": "*.py\n", "sub/a.py": ""})
    (tmp_path / "sub" / ".gitignore").symlink_to("../rules")
    assert _packed(tmp_path) == ["rules", "sub/.gitignore", "sub/a.py"]


def test_byte_order_marks_and_crlf_are_accepted(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf*.pyc\r\n*.log\r\n")
    _write(tmp_path, {"a.pyc": "", "a.log": "", "a.py": ""})
    assert _packed(tmp_path) == [".gitignore", "a.py"]


def test_an_oversized_ignore_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".kajiignore").write_bytes(b"x" * (2 << 20))
    with pytest.raises(InvalidInput, match="more than 1 MiB"):
        list_folder(tmp_path)
