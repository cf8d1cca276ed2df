"""Names of large folders between the pages of their lists: how long they are kept, and how much of them."""

from __future__ import annotations

import pytest

from kajitori.api.answers import file_listings
from kajitori.api.answers.file_listings import KEPT_SECONDS, FileListings

HERE = ("uid", "step-100")
KEYS = [f"1{number}" for number in range(5)]


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pages_follow_each_other_to_the_end() -> None:
    listings = FileListings(Clock())
    position, found = f"{listings.keep(HERE, KEYS, 9)}@0", []
    while position:
        page = listings.page(position, HERE, 2)
        assert page is not None
        assert page.count == 9
        found.append(list(page.keys))
        position = page.position
    assert found == [KEYS[:2], KEYS[2:4], KEYS[4:]]


@pytest.mark.parametrize("position", ["", "?@0", "{}", "{}@", "{}@-1", "{}@x", "{}@²"])
def test_a_position_that_is_none_is_not_found(position: str) -> None:
    listings = FileListings(Clock())
    assert listings.page(position.format(listings.keep(HERE, KEYS, 9)), HERE, 2) is None


def test_a_position_is_of_one_folder_of_one_run() -> None:
    """Else a user could read the names in another one's folder."""
    listings = FileListings(Clock())
    position = f"{listings.keep(HERE, KEYS, 9)}@0"
    assert listings.page(position, ("uid", "step-200"), 2) is None
    assert listings.page(position, ("other", "step-100"), 2) is None
    assert listings.page(position, HERE, 2) is not None
    beyond = listings.page(f"{position[:-1]}99", HERE, 2)
    assert beyond is None


def test_names_are_kept_while_someone_asks_and_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    listings = FileListings(clock)
    first = f"{listings.keep(HERE, KEYS, 9)}@0"
    clock.now = KEPT_SECONDS - 1
    assert listings.page(first, HERE, 2) is not None
    clock.now += KEPT_SECONDS - 1
    assert listings.page(first, HERE, 2) is not None
    clock.now += KEPT_SECONDS + 1
    assert listings.page(first, HERE, 2) is None
    monkeypatch.setattr(file_listings, "MAX_BYTES", 25)
    positions = [f"{listings.keep(HERE, KEYS, 9)}@0" for _ in range(2)]
    assert listings.page(positions[0], HERE, 2) is not None
    positions.append(f"{listings.keep(HERE, KEYS, 9)}@0")
    assert [listings.page(each, HERE, 2) is not None for each in positions] == [True, False, True]
    monkeypatch.setattr(file_listings, "MAX_LISTING_BYTES", 9)
    assert listings.keep(HERE, KEYS, 9) == ""


def test_a_page_fits_into_an_argument_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_listings, "MAX_PAGE_BYTES", 12)
    listings = FileListings(Clock())
    page = listings.page(f"{listings.keep(HERE, KEYS, 9)}@0", HERE, 4)
    assert page is not None
    assert list(page.keys) == KEYS[:2]
