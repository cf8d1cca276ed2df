"""Whether a namespace's quotas leave room for a gang."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.quota import quota_shortage

AMOUNTS = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "8"}
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}]}}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used or {}}}


@pytest.mark.parametrize(
    ("hard", "used", "said"),
    [
        ({"pods": "4"}, {}, ""),
        ({"pods": "4"}, {"pods": "1"}, "quota team, pods: needs 4, 3 of 4 left"),
        ({"count/pods": "3"}, {}, "count/pods: needs 4"),
        ({"cpu": "8"}, {"cpu": "0"}, ""),
        ({"requests.cpu": "10"}, {"requests.cpu": "2500m"}, "requests.cpu: needs 8, 7500m of 10 left"),
        ({"limits.memory": "10Gi"}, {}, "limits.memory: needs 16Gi, 10Gi of 10Gi left"),
        (
            {"requests.nvidia.com/gpu": "16"},
            {"requests.nvidia.com/gpu": "20"},
            "requests.nvidia.com/gpu: needs 32, 0 of 16 left",
        ),
        ({"services": "0", "requests.storage": "0"}, {}, ""),
        ({"cpu": "nonsense"}, {}, ""),
    ],
)
def test_amounts_are_summed_over_the_gang_and_added_to_the_usage(
    hard: dict[str, str], used: dict[str, str], said: str
) -> None:
    """Resources that do not concern Pods are ignored."""
    found = quota_shortage([quota(hard, used)], TEMPLATE, 4)
    assert said in found
    assert bool(said) == bool(found)


def test_a_quota_with_scopes_is_left_to_the_api_server() -> None:
    assert not quota_shortage([quota({"pods": "0"}, scopes=["BestEffort"])], TEMPLATE, 1)


def test_a_quota_without_a_status_counts_from_zero() -> None:
    assert quota_shortage([{"metadata": {"name": "new"}, "spec": {"hard": {"pods": "1"}}}], TEMPLATE, 2)


def test_every_shortage_is_named() -> None:
    found = quota_shortage([quota({"pods": "1", "cpu": "1"}), quota({"pods": "2"})], TEMPLATE, 4)
    assert found.count("quota team") == 3


def test_claims_and_their_devices_count_for_the_whole_gang() -> None:
    """Quotas count devices by their DeviceClass."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
    template = {"spec": {"containers": []}, "gpuClaim": {"devices": {"requests": requests}}}
    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    hard = {devices: "7", "count/resourceclaims.resource.k8s.io": "4"}
    assert quota_shortage([quota(hard)], template, 4) == f"quota team, {devices}: needs 8, 7 of 7 left"
    assert quota_shortage([quota(hard)], template, 3) == ""
    claims = "count/resourceclaims.resource.k8s.io"
    assert quota_shortage([quota({claims: "2"})], template, 3) == f"quota team, {claims}: needs 3, 2 of 2 left"
