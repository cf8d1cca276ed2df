"""The GPUs that drivers of dynamic resource allocation publish, by node, and which of them are in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.objects import Pod
from kajitori.core.gpus.devices import DeviceClass, DeviceId
from kajitori.core.gpus.offers import GpuOffer, NodeGpus, gpus_of_node
from kajitori.core.naming import names
from kajitori.core.policy.file import Policy
from kajitori.kube.device_objects import DeviceClaim, ResourceSlice
from kajitori.kube.devices import default_shares, device_class, devices_of, node_devices, taken_by
from kajitori.kube.resources import DEVICE_CLAIMS, DEVICE_KINDS, PODS, RESOURCE_SLICES, Resource


class Devices:
    """The GPUs of all nodes as devices. It follows the mirror by itself; slices of other devices are ignored."""

    def __init__(self, mirror: Mirror, policy: Callable[[], Policy]) -> None:
        self._mirror = mirror
        self._policy = policy
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        """The slices of GPU drivers by node and name."""
        self._node_of_slice: dict[str, str] = {}
        self._node_of_pool: dict[tuple[str, str], str] = {}
        """Node by driver and pool."""
        self._nodes: dict[str, NodeGpus] = {}
        self._drivers: dict[str, bool] = {}
        self._classes: tuple[DeviceClass, ...] | None = None
        self._claims: dict[Key, DeviceClaim] = {}
        """The allocated claims that are counted."""
        self._nodes_of_claim: dict[Key, set[str]] = {}
        """The nodes on which each claim of `_claims` is counted."""
        self._claims_of_pods: dict[str, set[Key]] = {}
        """Allocated claims by the UID of the Pod that they are reserved for."""
        self._early: dict[tuple[str, str], set[Key]] = {}
        """Allocated claims with devices that no slice shows yet, by driver and pool."""
        self._claims_on: dict[str, set[Key]] = {}
        """Allocated claims by node."""
        self._changed: set[str] = set()
        self._used_changed: set[str] = set()
        for name in mirror.slices:
            self._note_slice(name)
        for key in mirror.device_claims:
            self._note_claim(key)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    # ------------------------------------------------------------------------------------------ questions

    def offers(self, node: str) -> tuple[GpuOffer, ...]:
        """Return the GPUs that drivers publish for a node, by type."""
        found = self._gpus_of(node)
        return found.offers if found is not None else ()

    def used(self, node: str) -> dict[str, int]:
        """Return the number of used GPUs of a node by type. GPUs count if they are allocated to a claim, or if a Pod on
        the node requests them and the mirror does not show its claim yet."""
        found = self._gpus_of(node)
        if found is None:
            return {}
        taken: Counter[DeviceId] = Counter()
        defaults = default_shares(self._slices[node].values())
        for key in self._claims_on.get(node, ()):
            taken.update(taken_by(self._claims[key], defaults))
        used = found.used(taken)
        for pod in self._mirror.pods_on_node(node):
            if not pod.is_finished and pod.metadata.uid not in self._claims_of_pods:
                for word, count in self._asked_by(pod, found).items():
                    used[word] = used.get(word, 0) + count
        return used

    def gpus_of(self, pod: Pod) -> dict[str, int]:
        """Return how many GPUs of each type a Pod on a node with devices has."""
        found = self._gpus_of(pod.spec.node_name)
        if found is None:
            return {}
        counts: Counter[str] = Counter()
        claims = self._claims_of_pods.get(pod.metadata.uid)
        if not claims:
            return self._asked_by(pod, found)
        for key in claims:
            for device in devices_of(self._claims[key]):
                if word := found.type_of(device):
                    counts[word] += 1
        return dict(counts)

    def take_changed(self) -> set[str]:
        """Return the nodes with devices that changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def take_used_changed(self) -> set[str]:
        """Return the nodes on which the use of devices changed since the last call."""
        changed, self._used_changed = self._used_changed, set()
        return changed

    def read_all_again(self) -> None:
        """Read everything again, because the policy changed, which names the drivers and types of GPUs."""
        self._drivers.clear()
        for name in self._mirror.slices:
            self._note_slice(name)
        for key in self._mirror.device_claims:
            self._note_claim(key)
        self._forget_all()

    # ------------------------------------------------------------------------------------------ changes

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == DEVICE_CLAIMS:
            self._note_claim((namespace, name))
        elif resource == RESOURCE_SLICES:
            self._note_slice(name)
        elif resource == PODS:
            pod = self._mirror.pods.get((namespace, name))
            if pod is not None and pod.spec.node_name in self._slices:
                self._used_changed.add(pod.spec.node_name)
        elif resource in DEVICE_KINDS:  # a DeviceClass or a taint rule
            self._forget_all()

    def _note_slice(self, name: str) -> None:
        before = self._node_of_slice.pop(name, "")
        if before:
            self._slices[before].pop(name, None)
            if not self._slices[before]:
                del self._slices[before]
            self._forget_node(before)
        found = self._mirror.slices.get(name)
        if found is None or not found.spec.node_name or not self._is_driver(found.spec.driver):
            return
        node = found.spec.node_name
        self._node_of_slice[name] = node
        self._slices.setdefault(node, {})[name] = found
        if self._node_of_pool.get((found.spec.driver, found.spec.pool.name)) != node:
            pool = found.spec.driver, found.spec.pool.name
            self._node_of_pool[pool] = node
            for key in self._early.pop(pool, ()):
                self._note_claim(key)
        self._forget_node(node)

    def _is_driver(self, name: str) -> bool:
        """Return whether the devices of a driver are GPUs."""
        if name not in self._drivers:
            self._drivers[name] = self._policy().gpu.is_driver(name)
        return self._drivers[name]

    def _forget_node(self, node: str) -> None:
        self._nodes.pop(node, None)
        self._changed.add(node)
        self._used_changed.add(node)

    def _forget_all(self) -> None:
        self._classes = None
        self._nodes.clear()
        self._changed.update(self._slices)
        self._used_changed.update(self._slices)

    def _note_claim(self, key: Key) -> None:
        """Follow a change of a claim: note the nodes that have its devices, and the Pods that may use them."""
        self._forget_claim(key)
        claim = self._mirror.device_claims.get(key)
        nodes = self._nodes_with(key, claim) if claim is not None else set()
        if claim is None or not nodes:
            return
        self._claims[key], self._nodes_of_claim[key] = claim, nodes
        for node in nodes:
            self._claims_on.setdefault(node, set()).add(key)
            self._used_changed.add(node)
        for consumer in claim.status.reserved_for:
            self._claims_of_pods.setdefault(consumer.uid, set()).add(key)

    def _forget_claim(self, key: Key) -> None:
        before = self._claims.pop(key, None)
        if before is not None:
            for node in self._nodes_of_claim.pop(key):
                self._claims_on[node].discard(key)
                self._used_changed.add(node)
            for consumer in before.status.reserved_for:
                keys = self._claims_of_pods.get(consumer.uid, set())
                keys.discard(key)
                if not keys:
                    self._claims_of_pods.pop(consumer.uid, None)
        for keys in self._early.values():  # few: slices are usually published long before the claims
            keys.discard(key)

    def _nodes_with(self, key: Key, claim: DeviceClaim) -> set[str]:
        """Return the nodes that have the devices of a claim. Pools that are not published yet are remembered."""
        nodes = set()
        for pool in {device[:2] for device in devices_of(claim) if self._is_driver(device[0])}:
            if pool in self._node_of_pool:
                nodes.add(self._node_of_pool[pool])
            else:
                self._early.setdefault(pool, set()).add(key)
        return nodes

    # ------------------------------------------------------------------------------------------ reading

    def _gpus_of(self, node: str) -> NodeGpus | None:
        published = self._slices.get(node)
        if published is None:
            return None
        if node not in self._nodes:
            policy = self._policy().gpu
            devices = node_devices(published.values(), self._mirror.device_taint_rules.values())
            self._nodes[node] = gpus_of_node(devices, self._known_classes(), policy, policy.resource)
        return self._nodes[node]

    def _known_classes(self) -> tuple[DeviceClass, ...]:
        if self._classes is None:
            self._classes = tuple(map(device_class, self._mirror.device_classes.values()))
        return self._classes

    def _asked_by(self, pod: Pod, gpus: NodeGpus) -> dict[str, int]:
        """Return the GPUs that a Pod asks for: a member of a run as its annotation says, others by extended
        resources."""
        written = pod.metadata.annotations.get(names.ANNOTATION_GPU_REQUEST, "")
        whole = next((offer.type for offer in gpus.offers if offer.is_whole), "")
        if written and self._mirror.is_member(pod):
            count, gpu_type = names.read_gpus(written)
            return {gpu_type or whole: count} if count else {}
        usage, resource = self._mirror.usage_of_pod(pod), self._policy().gpu.resource
        found = {}
        for offer in gpus.offers:
            asked = sum(usage.other(way or resource) for way in offer.ways)
            if asked:
                found[offer.type] = asked
        return found
