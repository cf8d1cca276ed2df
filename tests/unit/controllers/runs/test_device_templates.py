"""The template of claims by which members get their GPUs."""

from __future__ import annotations

import copy
from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.attempts import StartRefused, prepare_devices
from kajitori.core.gpus.offers import claim_spec
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.errors import AlreadyExists
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta

RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
CLAIM = claim_spec("gpu.nvidia.com", 2, ["is_h100"])


class Templates:
    """A client for objects of one kind."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}

    async def create(self, resource: object, body: dict[str, Any], namespace: str) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self.stored:
            raise AlreadyExists(f"{name} exists")
        self.stored[name] = copy.deepcopy(body)
        return body

    async def get(self, resource: object, name: str, namespace: str) -> dict[str, Any]:
        return self.stored[name]


async def prepared(templates: Templates, template: dict[str, Any]) -> None:
    attempt = Attempt(number=1, nodes="n1", template=template_text({"metadata": {}, "spec": {}, **template}))
    await prepare_devices(cast(KubeClient, templates), RUN, attempt)


async def test_attempts_with_the_same_claim_share_a_template() -> None:
    """An attempt without claims has none; other claims have another one."""
    templates = Templates()
    await prepared(templates, {})
    assert not templates.stored
    await prepared(templates, {"gpuClaim": CLAIM})
    await prepared(templates, {"gpuClaim": CLAIM})
    assert len(templates.stored) == 1
    await prepared(templates, {"gpuClaim": claim_spec("mig.nvidia.com", 1, [])})
    assert len(templates.stored) == 2


async def test_a_template_that_somebody_replaced_is_refused() -> None:
    """With it members would get more than policy allowed. Defaults of the API server do not matter."""
    templates = Templates()
    await prepared(templates, {"gpuClaim": CLAIM})
    (name, stored) = next(iter(templates.stored.items()))
    exactly = stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    exactly["adminAccess"] = False
    await prepared(templates, {"gpuClaim": CLAIM})
    templates.stored[name] = msgspec.json.decode(msgspec.json.encode(stored).replace(b'"count":2', b'"count":8'))
    with pytest.raises(StartRefused) as refused:
        await prepared(templates, {"gpuClaim": CLAIM})
    assert refused.value.reason is Reason.ADMISSION
    assert f"kubectl delete resourceclaimtemplate {name} -n vision" in refused.value.message
