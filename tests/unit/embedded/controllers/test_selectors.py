"""The index of selectors finds the same Services as a look at each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.controllers.selectors import SelectorIndex

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
KEYS = st.tuples(st.sampled_from(["red", "blue"]), st.sampled_from("xyz"))


@given(st.lists(st.tuples(KEYS, LABELS), max_size=12), st.sampled_from(["red", "blue"]), LABELS)
def test_a_pod_is_selected_by_the_services_with_all_labels_of_their_selectors(
    changes: list[tuple[tuple[str, str], dict[str, str]]], namespace: str, labels: dict[str, str]
) -> None:
    index, selectors = SelectorIndex(), {}
    for key, selector in changes:
        index.set(key, selector)
        selectors[key] = selector

    expected = [
        key
        for key, selector in selectors.items()
        if key[0] == namespace and selector and selector.items() <= labels.items()
    ]
    assert sorted(index.selecting(namespace, labels)) == sorted(expected)


def test_a_pod_of_one_of_many_runs_is_compared_with_the_service_of_its_run_only() -> None:
    index = SelectorIndex()
    index.set(("default", "first"), {"by": "kajitori"})
    for number in range(1000):
        index.set(("default", f"run-{number}"), {"by": "kajitori", "run": str(number)})
    compared: list[str] = []

    class Labels(dict[str, str]):
        def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
            compared.append(key)
            return super().get(key, default)

    found = list(index.selecting("default", Labels(by="kajitori", run="7")))

    assert found == [("default", "first"), ("default", "run-7")]
    assert len(compared) <= 4
