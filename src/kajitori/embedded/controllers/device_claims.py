"""Creates the ResourceClaims that Pods ask for by a template, and releases the claims of Pods that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.objects import Pod, WrittenClaim, WrittenTemplate
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIM_TEMPLATES, DEVICE_CLAIMS, PODS

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class DeviceClaims(Controller):
    """Works like kube-controller-manager's controller of resource claims."""

    name = "kajitori-resource-claims"

    def __init__(self, client: KubeClient, cache: Cache | None = None) -> None:
        super().__init__(client, cache)
        self._pods = self.cache.informer(PODS, Pod)
        self._claims = self.cache.informer(DEVICE_CLAIMS, WrittenClaim)
        self._templates = self.cache.informer(CLAIM_TEMPLATES, WrittenTemplate)
        self._pods.listen(self._see_pod)
        self._claims.listen(self.changed)
        self._templates.listen(self.changed)

    async def reconcile(self) -> None:
        """Create missing claims, then release and delete those that no Pod needs any more."""
        for pod in list(self._pods.items.values()):
            if pod.spec.resource_claims and not pod.is_finished and not pod.metadata.deletion_timestamp:
                await self._create_claims(pod)
        using = {pod.metadata.uid for pod in self._pods.items.values() if not pod.is_finished}
        for (namespace, name), claim in list(self._claims.items.items()):
            owner = claim.metadata.controller
            if owner is not None and owner.kind == "Pod" and owner.uid not in using:
                await self._delete(name, namespace)
                continue
            kept = [one for one in claim.status.reserved_for if one.uid in using]
            if len(kept) < len(claim.status.reserved_for):
                consumers = [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in kept]
                status: dict[str, Any] = {"reservedFor": consumers or None}
                if not kept:
                    status["allocation"] = None
                await self.client.patch(DEVICE_CLAIMS, name, {"status": status}, namespace, subresource="status")

    async def _create_claims(self, pod: Pod) -> None:
        namespace, name = pod.key
        known = {entry["name"] for entry in pod.status.resource_claim_statuses or ()}
        made = list(pod.status.resource_claim_statuses or ())
        for entry in pod.spec.resource_claims or ():
            template = self._templates.items.get((namespace, entry.get("resourceClaimTemplateName") or ""))
            if entry["name"] in known or template is None:
                continue
            claim = self._existing_claim(pod, entry["name"])
            if claim is None:
                created = await self.client.create(
                    DEVICE_CLAIMS, _claim_document(pod, entry["name"], template.spec), namespace
                )
                claim = created["metadata"]["name"]
            made.append({"name": entry["name"], "resourceClaimName": claim})
        if len(made) > len(known):
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": made}}
            try:
                await self.client.patch(PODS, name, patch, namespace, subresource="status")
            except NotFound:
                return

    def _existing_claim(self, pod: Pod, name: str) -> str | None:
        """Return the claim that an earlier process created for a Pod before it was killed; None if there is none."""
        for claim in self._claims.items.values():
            owner = claim.metadata.controller
            is_of_pod = owner is not None and owner.uid == pod.metadata.uid
            if is_of_pod and claim.metadata.annotations.get(POD_CLAIM_NAME) == name:
                return claim.metadata.name
        return None

    async def _delete(self, name: str, namespace: str) -> None:
        try:
            await self.client.delete(DEVICE_CLAIMS, name, namespace)
        except NotFound:
            return

    def _see_pod(self, _key: object, old: Pod | None, new: Pod | None) -> None:
        if any(pod is not None and (pod.spec.resource_claims or self._claims.items) for pod in (old, new)):
            self.changed()


def _claim_document(pod: Pod, name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    namespace, pod_name = pod.key
    meta = template.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod.metadata.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod_name}-{name}-",
            "namespace": namespace,
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: name},
            "ownerReferences": [owner | {"blockOwnerDeletion": True}],
        },
        "spec": template["spec"],
    }
