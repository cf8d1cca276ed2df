"""The order in which pytest collects the files that it was given."""

from __future__ import annotations

from tests.harness.collecting import one_folder_at_a_time


def test_files_of_a_folder_are_adjacent_and_come_after_its_sub_folders() -> None:
    """Otherwise pytest 9.1 finds no fixture of `pages/conftest.py` for test_b. Files of one folder keep their order,
    in which somebody looks for tests that depend on each other."""
    given = [
        "tests/browser/pages/test_b.py::test_one",
        "tests/browser/test_large.py",
        "tests/browser/pages/test_a.py",
        "tests/browser",
        "tests/unit/test_docs.py",
        "tests/unit/api/test_openapi.py",
    ]
    assert one_folder_at_a_time(given) == [
        "tests/browser",
        "tests/browser/pages/test_b.py::test_one",
        "tests/browser/pages/test_a.py",
        "tests/browser/test_large.py",
        "tests/unit/api/test_openapi.py",
        "tests/unit/test_docs.py",
    ]
