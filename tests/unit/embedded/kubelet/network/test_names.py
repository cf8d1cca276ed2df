"""Names of other Pods in the hosts file of a Pod."""

from __future__ import annotations

from pathlib import Path

from kajitori.embedded.kubelet.cluster import Endpoints
from kajitori.embedded.kubelet.network.names import NameBook, rewrite, with_names

SHOP = Endpoints("net-shop", (("db", "10.0.0.1"), ("web", "10.0.0.2"), ("web", "10.0.0.3")))
BLOG = Endpoints("net-blog", (("db", "10.0.0.9"),))
RUN = Endpoints("db", (("db-1-0", "10.0.0.5"),))


def test_a_pod_finds_the_names_in_its_networks_before_those_of_services() -> None:
    """Two networks may both have a db, and neither is found from outside, nor from another namespace."""
    book = NameBook("net-")
    book.update("lab", [SHOP, BLOG, RUN])
    book.update("other", [Endpoints("db", (("", "10.9.9.9"),))])
    assert book.text("lab", ["net-shop"]) == "10.0.0.1\tdb\n10.0.0.2\tweb\n10.0.0.3\tweb\n"
    assert book.text("lab", ["net-blog", "net-shop"]).startswith("10.0.0.9\tdb\n10.0.0.2\tweb\n")
    assert book.text("lab", []) == "10.0.0.5\tdb\n"
    assert book.text("none", ["net-shop"]) == ""


def test_a_hosts_file_is_rewritten_in_place(tmp_path: Path) -> None:
    """Containers have mounted the file itself, so a new one in its place would not reach them."""
    file = tmp_path / "hosts"
    rewrite(file, "10.0.0.1\tdb\n")
    assert not file.exists(), "a Pod that has no hosts file yet gets none"
    file.write_text(with_names("10.0.0.1\tdb\n10.0.0.2\tweb\n", "127.0.0.1\tlocalhost\n"))
    with file.open() as mounted:
        rewrite(file, "10.0.0.3\tdb\n")
        assert mounted.read() == with_names("10.0.0.3\tdb\n", "127.0.0.1\tlocalhost\n")
    file.write_text("127.0.0.1\tmine\n")
    rewrite(file, "10.0.0.3\tdb\n")
    assert file.read_text() == "127.0.0.1\tmine\n", "a file without such names is not the kubelet's"
