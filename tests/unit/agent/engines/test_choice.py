"""The engine that counts on each kernel, by nft's answers."""

from __future__ import annotations

import logging

import pytest

from kajitori.agent.engines import choice, nft
from kajitori.errors import Unavailable, Unsupported

OF_LINUX_5_10 = (
    "/dev/stdin:2:1-94: Error: Could not process rule: Operation not supported add chain netdev kajitori_try c "
    '{ type filter hook egress device "lo" priority 0; }'
)


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(script: str) -> None:
        raise Unavailable(f"nft could not change the rules: {OF_LINUX_5_10}")

    monkeypatch.setattr(nft, "require_nft", lambda: None)
    monkeypatch.setattr(nft, "check", refuses)


def test_an_older_kernel_counts_by_addresses(old_kernel: None, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning that says why."""
    with caplog.at_level(logging.WARNING):
        assert [engine.name for engine in choice.choose_engines("auto")] == ["sets"]
    assert "before 5.16" in caplog.text
    assert [engine.name for engine in choice.choose_engines("sets")] == ["sets"]


def test_an_older_kernel_refuses_the_interface_engine(old_kernel: None) -> None:
    """At once and with a hint, instead of an nft error per rule in each round."""
    with pytest.raises(Unsupported) as refused:
        choice.choose_engines("interface")
    assert "traffic.engine is interface" in refused.value.message and "before 5.16" in refused.value.message
    assert "auto" in (refused.value.hint or "")
