"""The address registry follows its file; a faulty file does not replace it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.configuration.networks_file import NetworksFile
from kajitori.core.network.registry.model import Networks
from kajitori.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("changes_count_at_once")


def test_the_registry_follows_the_file_unless_it_is_faulty(tmp_path: Path) -> None:
    """Without a file it is empty. A faulty file is reported and changes nothing."""
    path = tmp_path / "networks.yaml"
    source = NetworksFile(path)
    assert source.current().networks == Networks()
    path.write_text("clusters: [{name: alpha, nodes: [10.1.0.0/16]}]")
    good = source.current()
    assert [cluster.name for cluster in good.networks.clusters] == ["alpha"]
    path.write_text("clusters: [{name: alpha, nodes: [10.1.0.0/16, 10.1.2.0/24]}]")
    bad = source.current()
    assert (bad.networks, bad.version) == (good.networks, good.version)
    assert [fault.field for fault in bad.faults] == ["clusters[0].nodes[1] (line 1)"]


def test_a_named_registry_file_must_exist(tmp_path: Path) -> None:
    """No process starts with addresses that its operator did not intend."""
    with pytest.raises(InvalidInput, match=r"networks\.yaml cannot be read"):
        NetworksFile(tmp_path / "networks.yaml", required=True)
