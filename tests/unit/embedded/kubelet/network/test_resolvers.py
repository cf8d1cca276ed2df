"""Name servers of Pods with network namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.embedded.kubelet.network.resolvers import resolver_file


@pytest.mark.parametrize(
    ("usual", "behind", "is_replaced"),
    [
        ("nameserver 127.0.0.53\noptions edns0\n", "nameserver 192.0.2.1\n", True),
        ("nameserver ::1\nnameserver 127.0.0.1\n", "nameserver fe80::1%eth0\n", True),
        ("nameserver 192.0.2.1\nnameserver 127.0.0.1\n", "nameserver 192.0.2.1\n", False),
        ("nameserver 127.0.0.1\n", "# none\n", False),
        ("nameserver 127.0.0.1\n", None, False),
        ("search example.org\n", "nameserver 192.0.2.1\n", False),
        ("nameserver no-address\n", "nameserver 192.0.2.1\n", False),
    ],
)
def test_servers_on_the_loopback_address_are_replaced(
    tmp_path: Path, usual: str, behind: str | None, is_replaced: bool
) -> None:
    """A Pod with a network namespace could not ask systemd-resolved, so its programs resolved no names outside."""
    files = tmp_path / "usual", tmp_path / "behind"
    files[0].write_text(usual)
    if behind is not None:
        files[1].write_text(behind)
    assert resolver_file(*files) == (files[1] if is_replaced else None)
