"""Objects of dynamic resource allocation (resource.k8s.io), reduced to the fields that are used here."""

from __future__ import annotations

import msgspec

from kajitori.kube.metadata import ObjectMeta, Wire


class Attribute(Wire, frozen=True):
    """A value of a device's attribute; one of these fields is set."""

    integer: int | None = msgspec.field(name="int", default=None)
    string: str | None = None
    boolean: bool | None = msgspec.field(name="bool", default=None)
    version: str | None = None


class RequestPolicy(Wire, frozen=True):
    default: str | None = None


class Capacity(Wire, frozen=True):
    value: str = "0"
    request_policy: RequestPolicy | None = None


class Counter(Wire, frozen=True):
    value: str = "0"


class CounterSet(Wire, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class CounterUse(Wire, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class PublishedDevice(Wire, frozen=True):
    name: str = ""
    node_name: str = ""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterUse, ...] = ()
    allow_multiple_allocations: bool = False
    taints: tuple[DeviceTaint, ...] = ()


class DevicePool(Wire, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Wire, frozen=True):
    driver: str = ""
    node_name: str = ""
    """Empty for devices that do not belong to one node."""
    pool: DevicePool = DevicePool()
    devices: tuple[PublishedDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Wire, frozen=True):
    """Devices that a driver publishes."""

    metadata: ObjectMeta
    spec: SliceSpec = SliceSpec()


class CelSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CelSelector = CelSelector()


class ClassSpec(Wire, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str = ""


class PublishedClass(Wire, frozen=True):
    """A DeviceClass."""

    metadata: ObjectMeta
    spec: ClassSpec = ClassSpec()


class AllocatedDevice(Wire, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    """Access for monitoring, which takes no capacity from other claims."""
    consumed_capacity: dict[str, str] = {}


class AllocatedDevices(Wire, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()


class Allocation(Wire, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()


class Consumer(Wire, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceClaimStatus(Wire, frozen=True):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class DeviceClaim(Wire, frozen=True):
    """A ResourceClaim."""

    metadata: ObjectMeta
    status: DeviceClaimStatus = DeviceClaimStatus()


class TaintSelector(Wire, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Wire, frozen=True):
    device_selector: TaintSelector = TaintSelector()
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Wire, frozen=True):
    """A taint for all devices that a selector matches."""

    metadata: ObjectMeta
    spec: TaintRuleSpec = TaintRuleSpec()
