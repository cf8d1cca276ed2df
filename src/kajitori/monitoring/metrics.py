"""Names, units and help texts of metrics. Base units as in Prometheus: seconds, bytes, counts.

A process creates one registry (`new_registry`) and its own metrics. Metrics that follow from the state of the cluster
are computed when they are read, by a collector that yields the families below.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, PlatformCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

REQUEST_SECONDS = "kajitori_api_request_seconds"
OPEN_STREAMS = "kajitori_api_open_streams"
BROKEN_STREAMS = "kajitori_api_broken_streams"
CONNECTIONS = "kajitori_api_connections"
UNAUTHENTICATED = "kajitori_api_unauthenticated_connections"
CLOSED_CONNECTIONS = "kajitori_api_closed_connections"
MIRROR_LAG_SECONDS = "kajitori_mirror_lag_seconds"
MIRROR_SYNCED = "kajitori_mirror_synced"
MIRROR_TROUBLED = "kajitori_mirror_troubled"
CONTROLLER_LEASE_AGE_SECONDS = "kajitori_controller_lease_age_seconds"
POLICY_FAULTS = "kajitori_policy_faults"
RUNS = "kajitori_runs"
NODES = "kajitori_nodes"
NODES_SUSPECTED = "kajitori_nodes_suspected"
NODE_TESTS = "kajitori_node_tests"
GPUS = "kajitori_gpus"
GPUS_IDLE = "kajitori_gpus_idle"
GUARANTEED = "kajitori_guaranteed"
GUARANTEED_USED = "kajitori_guaranteed_used"
GUARANTEED_WAITING = "kajitori_guaranteed_waiting_runs"
RUN_GPU_USED = "kajitori_run_gpu_used_percent"
"""Metric of a run's bands, which the Web API serves at /v1/stats/prometheus."""
RUNS_UNSTABLE = "kajitori_runs_unstable"
RUNS_STUCK = "kajitori_runs_stuck"
RUNS_CHECKED = "kajitori_runs_checked"

TRAFFIC_POD = "kajitori_traffic_pod"
TRAFFIC_RUN = "kajitori_traffic_run"
TRAFFIC_NAMESPACE = "kajitori_traffic_namespace"
TRAFFIC_USER = "kajitori_traffic_user"
TRAFFIC_HOST = "kajitori_traffic_host"
TRAFFIC_STRANGERS = "kajitori_traffic_strangers"
"""Metrics of an agent; each has `_bytes_total` and `_packets_total`."""
CARD_BYTES = "kajitori_card_bytes_total"
CARD_DROPPED = "kajitori_card_dropped_packets_total"
CARD_CAPACITY = "kajitori_card_capacity_bytes_per_second"
AGENT_REPAIRS = "kajitori_agent_repairs_total"
AGENT_COUNTERS_LOST = "kajitori_agent_counters_lost_total"
AGENT_FAILURES = "kajitori_agent_failures_total"
AGENT_UNCOUNTED_PODS = "kajitori_agent_uncounted_pods"
AGENT_READ_SECONDS = "kajitori_agent_read_seconds"
AGENT_READ_AT = "kajitori_agent_read_timestamp_seconds"
AGENT_REPORTED_AT = "kajitori_agent_reported_timestamp_seconds"

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


def new_registry() -> CollectorRegistry:
    """Return a registry with the standard metrics of a Python process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class ApiMetrics:
    """Metrics that the Web API updates while it works."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.request_seconds = Histogram(
            REQUEST_SECONDS,
            "Time from a request's arrival to the start of its response.",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self.open_streams = Gauge(
            OPEN_STREAMS, "Responses that are still being written, by kind.", ("kind",), registry=registry
        )
        self.broken_streams = Counter(
            BROKEN_STREAMS, "Responses that were cut off because their source failed.", ("kind",), registry=registry
        )
        self.connections = Gauge(CONNECTIONS, "Open connections.", registry=registry)
        self.unauthenticated = Gauge(
            UNAUTHENTICATED, "Open connections whose callers are not authenticated.", registry=registry
        )
        self.closed_connections = Counter(
            CLOSED_CONNECTIONS,
            "Connections closed because too many were open: refused when they came, or evicted for a newer one.",
            ("why",),
            registry=registry,
        )
        self.mirror_lag_seconds = Histogram(
            MIRROR_LAG_SECONDS,
            "Time from the API server's response to a write until the watch shows the change.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )


def mirror_synced() -> GaugeMetricFamily:
    """1 when every kind was read once."""
    return GaugeMetricFamily(MIRROR_SYNCED, "Whether the cluster's state was read completely.")


def mirror_troubled() -> GaugeMetricFamily:
    """1 while a watch is broken, so that responses may be stale."""
    return GaugeMetricFamily(MIRROR_TROUBLED, "Whether a watch on the API server is broken now.")


def controller_lease_age() -> GaugeMetricFamily:
    """Above 20 no controller is working; without a sample the age is unknown."""
    return GaugeMetricFamily(
        CONTROLLER_LEASE_AGE_SECONDS, "Time since the controllers' Lease last changed; absent if unknown."
    )


def policy_faults() -> GaugeMetricFamily:
    """Faults of the newest policy file; above zero the previous policy stays in force."""
    return GaugeMetricFamily(POLICY_FAULTS, "Faults in the policy file; the previous policy is then in force.")


def runs_by_phase() -> GaugeMetricFamily:
    """Runs by phase."""
    return GaugeMetricFamily(RUNS, "Runs, by phase.", labels=("phase",))


def nodes_by_state() -> GaugeMetricFamily:
    """Nodes that accept work, are cordoned, are not ready, or are out of the pool: unhealthy, or not tested yet."""
    return GaugeMetricFamily(NODES, "Nodes, by state.", labels=("state",))


def nodes_suspected() -> GaugeMetricFamily:
    """Above zero, too many nodes look broken at once; a common cause is likely."""
    return GaugeMetricFamily(
        NODES_SUSPECTED, "Nodes that look unhealthy and stay in the pool because too many are out of it."
    )


def node_tests() -> GaugeMetricFamily:
    """Nodes by the state of their test."""
    return GaugeMetricFamily(
        NODE_TESTS, "Nodes, by their test (asked, testing, passed, failed, untested).", labels=("state",)
    )


def guaranteed() -> GaugeMetricFamily:
    """Guaranteed amounts: one series per guarantee and resource in it."""
    return GaugeMetricFamily(
        GUARANTEED,
        "What policy guarantees, by team, GPU type (empty: any) and resource (gpus, cores, memory_bytes, nodes).",
        labels=("team", "type", "resource"),
    )


def guaranteed_used() -> GaugeMetricFamily:
    """The used part of the guaranteed amounts; usage above the guarantee is borrowed."""
    return GaugeMetricFamily(
        GUARANTEED_USED, "How much of that the team's runs use; more is borrowed.", labels=("team", "type", "resource")
    )


def guaranteed_waiting() -> GaugeMetricFamily:
    """Waiting runs of teams that have a guarantee."""
    return GaugeMetricFamily(
        GUARANTEED_WAITING, "Runs that wait for nodes, by team, of teams with a guarantee.", labels=("team",)
    )


def runs_unstable() -> GaugeMetricFamily:
    """Above zero, a run probably restarts again and again without progress."""
    return GaugeMetricFamily(
        RUNS_UNSTABLE, "Active runs with at least five restarts or interruptions, the last one within an hour."
    )


def runs_stuck() -> GaugeMetricFamily:
    """Runs without progress. A suspected run may be well; the processes of a stuck one were seen to stand still."""
    return GaugeMetricFamily(
        RUNS_STUCK, "Running runs without progress, by verdict (suspected, stuck).", labels=("verdict",)
    )


def runs_checked() -> GaugeMetricFamily:
    """Runs that have a health check, and members that run. A run is unhealthy if any of its members is."""
    return GaugeMetricFamily(
        RUNS_CHECKED, "Running runs with a health check, by health (starting, healthy, unhealthy).", labels=("health",)
    )


def gpus_idle() -> GaugeMetricFamily:
    """Those of the used GPUs with which nothing was done for as long as policy says."""
    return GaugeMetricFamily(GPUS_IDLE, "Used GPUs that their runs have not used for long, by type.", labels=("type",))


def gpus_by_state() -> GaugeMetricFamily:
    """GPUs by type and state; the states of a type add up to all its GPUs."""
    return GaugeMetricFamily(GPUS, "GPUs, by type and state (used, free, broken).", labels=("type", "state"))
