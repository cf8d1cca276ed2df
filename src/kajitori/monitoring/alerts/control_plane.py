"""Alerts about the cluster's control plane: kube-apiserver, etcd, webhooks, clients.

Limits for etcd are those of etcd's own mixin. There is one alert each for 429, 5xx and latency, because their causes
differ: too many requests, a broken server or etcd, and a slow one.
"""

from __future__ import annotations

from kajitori.monitoring.alerts.model import Alert, Example, Group, Severity, durations

_REQUESTS = "apiserver_request_total"
_DURATION = "apiserver_request_duration_seconds"
_NO_STREAMS = 'subresource!~"log|exec|attach|portforward|proxy"'


def _slow_requests(verbs: str) -> str:
    selected = f'{_DURATION}_bucket{{verb=~"{verbs}",{_NO_STREAMS}}}'
    return f"histogram_quantile(0.99, sum by (verb, le) (rate({selected}[5m])))"


def _latency_example(verb: str, *, fast: int, total: int) -> Example:
    """Return an example of `total` requests a minute: `fast` take less than a second, the others 40 to 60 s."""
    labels = f'verb="{verb}",resource="pods",subresource=""'
    return durations(_DURATION, labels, ("0.5", "40", "60"), fast=fast, total=total)


def _failing_example(labels: str, failed: int) -> Example:
    """Return an example of 500 answered requests a minute, and `failed` others."""
    series = {f"{_REQUESTS}{{{labels}}}": f"0+{failed}x30", f'{_REQUESTS}{{code="200"}}': "0+500x30"}
    return Example(series=series, at="20m")


def _writes_example(pods: int) -> Example:
    """Return an example of 6,000 written Events a minute, and `pods` created Pods."""
    labels = 'verb="POST",code="201"'
    events, others = (f'{_REQUESTS}{{resource="{resource}",{labels}}}' for resource in ("events", "pods"))
    return Example(series={events: "0+6000x30", others: f"0+{pods}x30"}, at="20m")


def _webhook_example(*, fast: int, total: int) -> Example:
    labels = 'name="pods.example.com",type="validating"'
    metric = "apiserver_admission_webhook_admission_duration_seconds"
    return durations(metric, labels, ("0.5", "2.5"), fast=fast, total=total)


def _rate_limiter(*, fast: int, total: int) -> Example:
    metric, labels = "rest_client_rate_limiter_duration_seconds", 'job="kube-scheduler",instance="a"'
    return durations(metric, labels, ("0.5", "2"), fast=fast, total=total, minutes=40)


API_SERVER = Group(
    name="kubernetes-api-server",
    title="kube-apiserver",
    alerts=(
        Alert(
            name="KubeApiRefusesForLoad",
            expr=f'sum(rate({_REQUESTS}{{code="429"}}[5m])) / sum(rate({_REQUESTS}[5m])) > 0.01',
            hold="10m",
            severity=Severity.WARNING,
            summary="kube-apiserver answers requests with 429",
            description="{{ $value | humanizePercentage }} of all requests were answered with 429 for ten minutes.",
            means="""The API server has more requests than it may have in flight. All clients get slower; Kajitori's own
            client halves its concurrency at each 429.""",
            do=(
                "Find the flow: `sum by (priority_level, flow_schema) "
                "(rate(apiserver_flowcontrol_rejected_requests_total[5m]))`.",
                "Find the client: `kubectl get --raw /debug/api_priority_and_fairness/dump_requests`, or the audit "
                "log (`kaji audit`).",
                "Stop or limit this client. If it is Kajitori, look at `kajitori_controller_requests_at_a_time` and "
                "at the priority level `kajitori`.",
            ),
            fires=_failing_example('code="429",verb="LIST"', 10),
            quiet=_failing_example('code="429",verb="LIST"', 4),
        ),
        Alert(
            name="KubeApiFails",
            expr=f'sum(rate({_REQUESTS}{{code=~"5.."}}[5m])) / sum(rate({_REQUESTS}[5m])) > 0.03',
            hold="10m",
            severity=Severity.CRITICAL,
            summary="kube-apiserver answers requests with errors",
            description="{{ $value | humanizePercentage }} of all requests failed with a 5xx for ten minutes.",
            means="""Requests fail inside the API server, most often because etcd or a webhook does not answer. Runs go
            on; nothing new starts.""",
            do=(
                f'Find verb and kind: `topk(5, sum by (verb, resource) (rate({_REQUESTS}{{code=~"5.."}}[5m])))`.',
                "Look at the alerts about etcd and webhooks first: they are the usual cause.",
                "Read the API server's log for `timeout` and `etcdserver`.",
            ),
            fires=_failing_example('code="504",verb="POST"', 40),
            quiet=_failing_example('code="504",verb="POST"', 10),
        ),
        Alert(
            name="KubeApiSlowWrites",
            expr=f"{_slow_requests('POST|PUT|PATCH|APPLY|DELETE')} > 1",
            hold="10m",
            severity=Severity.WARNING,
            summary="kube-apiserver takes long for writes",
            description="One {{ $labels.verb }} in a hundred takes {{ $value | humanizeDuration }} or longer.",
            means="""Kubernetes' own objective is one second. Slow writes come from etcd's disk or from admission
            webhooks. Gangs start slowly, because each Pod is a write.""",
            do=(
                "Look at EtcdSlowSync and KubeWebhookSlow.",
                f"Find the kind: `topk(5, histogram_quantile(0.99, sum by (resource, le) "
                f'(rate({_DURATION}_bucket{{verb="POST"}}[5m]))))`.',
            ),
            fires=_latency_example("POST", fast=50, total=60),
            quiet=_latency_example("POST", fast=600, total=601),
        ),
        Alert(
            name="KubeApiSlowReads",
            expr=f"{_slow_requests('GET')} > 1",
            hold="10m",
            severity=Severity.WARNING,
            summary="kube-apiserver takes long to read single objects",
            description="One GET in a hundred takes {{ $value | humanizeDuration }} or longer.",
            means="""A read of one object should take milliseconds. If it does not, the API server is short of processor
            time, or its requests wait in a queue.""",
            do=(
                "Look at the API server's processor and memory, and at KubeApiRefusesForLoad.",
                "Look for large LISTs at the same time: KubeApiSlowLists.",
            ),
            fires=_latency_example("GET", fast=50, total=60),
            quiet=_latency_example("GET", fast=600, total=601),
        ),
        Alert(
            name="KubeApiSlowLists",
            expr=f"{_slow_requests('LIST')} > 30",
            hold="10m",
            severity=Severity.WARNING,
            summary="kube-apiserver takes long for lists",
            description="One LIST in a hundred takes {{ $value | humanizeDuration }} or longer.",
            means="""Kubernetes' own objective is 30 seconds for lists of the whole cluster. A client that keeps
            listing all Pods slows down all others.""",
            do=(
                f'Find the kind: `topk(5, sum by (resource, scope) (rate({_REQUESTS}{{verb="LIST"}}[5m])))`.',
                "Find the client in the audit log, and make it watch instead (`resourceVersion=0`, informers).",
            ),
            fires=_latency_example("LIST", fast=50, total=60),
            quiet=_latency_example("LIST", fast=600, total=601),
        ),
        Alert(
            name="KubeEventFlood",
            expr=f"""sum(rate({_REQUESTS}{{resource="events",verb=~"POST|PATCH|PUT"}}[5m])) > 50 and
            sum(rate({_REQUESTS}{{resource="events",verb=~"POST|PATCH|PUT"}}[5m]))
            > 0.5 * sum(rate({_REQUESTS}{{verb=~"POST|PATCH|PUT|APPLY|DELETE"}}[5m]))""",
            hold="10m",
            severity=Severity.WARNING,
            summary="Most writes to kube-apiserver are Events",
            description="{{ $value | humanize }} Events a second are written.",
            means="""Some controller reports the same thing again and again. Events fill etcd and take the writes that
            starting Pods need.""",
            do=(
                "Count them by reason: `kubectl get events -A -o json | jq -r '.items[].reason' | sort | uniq -c | "
                "sort -n | tail`.",
                "Mend the object that they are about, or lower kube-apiserver's `--event-ttl`, or keep Events in an "
                "etcd of their own (`--etcd-servers-overrides=/events#…`).",
            ),
            fires=_writes_example(pods=1000),
            quiet=_writes_example(pods=9000),
        ),
        Alert(
            name="KubeWebhookSlow",
            expr="""histogram_quantile(0.99, sum by (name, le)
            (rate(apiserver_admission_webhook_admission_duration_seconds_bucket[5m]))) > 1""",
            hold="10m",
            severity=Severity.WARNING,
            summary="An admission webhook is slow",
            description="One call in a hundred of {{ $labels.name }} takes {{ $value | humanizeDuration }} or longer.",
            means="""The API server waits for the webhook in each request that matches it, also for each Pod of a
            gang.""",
            do=(
                "Look at the webhook's own Pods: too few replicas, no processor time, a restart.",
                "Narrow its rules and `namespaceSelector`, and set `timeoutSeconds` to 2 or less.",
            ),
            fires=_webhook_example(fast=10, total=60),
            quiet=_webhook_example(fast=600, total=601),
        ),
        Alert(
            name="KubeWebhookFails",
            expr="""sum by (name)
            (rate(apiserver_admission_webhook_rejection_count{error_type!="no_error"}[5m])) > 0""",
            hold="5m",
            severity=Severity.CRITICAL,
            summary="Requests fail because an admission webhook does not answer",
            description="{{ $labels.name }} fails {{ $value | humanize }} times a second.",
            means="""The webhook has `failurePolicy: Fail` and can't be called. Every request that matches its rules is
            refused, often every Pod of the cluster.""",
            do=(
                "Look at the Pods and the Service behind it: `kubectl get validatingwebhookconfigurations,"
                "mutatingwebhookconfigurations -o yaml | grep -B3 -A9 clientConfig`.",
                "If it can't be mended at once, set `failurePolicy: Ignore`, if its task allows that.",
            ),
            fires=Example(
                series={
                    'apiserver_admission_webhook_rejection_count{name="p",error_type="calling_webhook_error"}': "0+3x30"
                },
                at="15m",
            ),
            quiet=Example(
                series={'apiserver_admission_webhook_rejection_count{name="p",error_type="no_error"}': "0+3x30"},
                at="15m",
            ),
        ),
        Alert(
            name="KubeClientThrottled",
            expr="""histogram_quantile(0.99, sum by (job, instance, le)
            (rate(rest_client_rate_limiter_duration_seconds_bucket[5m]))) > 1""",
            hold="15m",
            severity=Severity.WARNING,
            summary="A Kubernetes component waits for its own rate limit",
            description="One request in a hundred of {{ $labels.job }} on {{ $labels.instance }} waits "
            "{{ $value | humanizeDuration }} or longer before it is sent.",
            means="""kube-scheduler, kube-controller-manager or a kubelet sends fewer requests than it needs to, by its
            own `--kube-api-qps`. Pods of large gangs are bound, or reported, late.""",
            do=(
                "Raise `--kube-api-qps` and `--kube-api-burst` of this component, if KubeApiRefusesForLoad is silent.",
                "If the API server is overloaded as well, find the cause there first.",
            ),
            fires=_rate_limiter(fast=10, total=60),
            quiet=_rate_limiter(fast=600, total=601),
        ),
    ),
)

_SIZE, _QUOTA = "etcd_mvcc_db_total_size_in_bytes", "etcd_server_quota_backend_bytes"

ETCD = Group(
    name="kubernetes-etcd",
    title="etcd",
    alerts=(
        Alert(
            name="EtcdNoLeader",
            expr="etcd_server_has_leader == 0",
            hold="1m",
            severity=Severity.CRITICAL,
            summary="A member of etcd has no leader",
            description="{{ $labels.instance }} has had no leader for a minute.",
            means="Without a leader etcd accepts no writes, so the API server refuses them. Running Pods go on.",
            do=(
                "Count the members: `etcdctl endpoint status --cluster -w table`. More than half must be up.",
                "Look at the network and the clocks between them, then at their disks.",
            ),
            fires=Example(series={'etcd_server_has_leader{instance="a"}': "1 0x10"}, at="5m"),
            quiet=Example(series={'etcd_server_has_leader{instance="a"}': "1 0 1x10"}, at="5m"),
        ),
        Alert(
            name="EtcdLeaderChanges",
            expr="increase(etcd_server_leader_changes_seen_total[15m]) >= 4",
            hold="5m",
            severity=Severity.WARNING,
            summary="etcd changes its leader often",
            description="{{ $labels.instance }} saw {{ $value | humanize }} leader changes within 15 minutes.",
            means="Each change stops writes for about a second. The cause is a slow disk or network of a member.",
            do=(
                "Look at EtcdSlowSync, and at round trips: `etcd_network_peer_round_trip_time_seconds`.",
                "Move etcd to disks of its own; nothing else should write there.",
            ),
            fires=Example(series={'etcd_server_leader_changes_seen_total{instance="a"}': "1+1x40"}, at="30m"),
            quiet=Example(series={'etcd_server_leader_changes_seen_total{instance="a"}': "1x14 2x30"}, at="20m"),
        ),
        Alert(
            name="EtcdSlowSync",
            expr="""histogram_quantile(0.99, sum by (instance, le)
            (rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m]))) > 0.5""",
            hold="10m",
            severity=Severity.WARNING,
            summary="etcd's disk is slow",
            description="1 % of fsyncs on {{ $labels.instance }} take {{ $value | humanizeDuration }} or longer.",
            means="Each write waits for it. A healthy disk needs less than 10 ms.",
            do=(
                "Look at what else writes to this disk: `iostat -x 1`, backups, logs, images.",
                "Use a local NVMe disk for etcd. Network disks and rotating disks are too slow.",
            ),
            fires=durations(
                "etcd_disk_wal_fsync_duration_seconds", 'instance="a"', ("0.256", "1.024"), fast=10, total=60
            ),
            quiet=durations(
                "etcd_disk_wal_fsync_duration_seconds", 'instance="a"', ("0.256", "1.024"), fast=600, total=601
            ),
        ),
        Alert(
            name="EtcdSlowCommit",
            expr="""histogram_quantile(0.99, sum by (instance, le)
            (rate(etcd_disk_backend_commit_duration_seconds_bucket[5m]))) > 0.25""",
            hold="10m",
            severity=Severity.WARNING,
            summary="etcd takes long to commit to its database",
            description="1 % of commits on {{ $labels.instance }} take {{ $value | humanizeDuration }} or longer.",
            means="The disk is slow, or the database is large and fragmented.",
            do=(
                "Look at EtcdSlowSync and EtcdFillsUp.",
                "Defragment one member after the other: `etcdctl defrag`.",
            ),
            fires=durations(
                "etcd_disk_backend_commit_duration_seconds", 'instance="a"', ("0.128", "0.512"), fast=10, total=60
            ),
            quiet=durations(
                "etcd_disk_backend_commit_duration_seconds", 'instance="a"', ("0.128", "0.512"), fast=600, total=601
            ),
        ),
        Alert(
            name="EtcdFillsUp",
            expr=f"{_SIZE} / ({_QUOTA} > 0) > 0.8",
            hold="10m",
            severity=Severity.CRITICAL,
            summary="etcd's database is nearly full",
            description="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its quota.",
            means="When the quota is reached, etcd accepts no writes at all until an operator compacts it.",
            do=(
                "Find what fills it: `topk(10, apiserver_storage_objects)`; often Events or finished Jobs.",
                "Delete these objects, then `etcdctl defrag` on one member after the other.",
                "Raise `--quota-backend-bytes`, up to 8 GiB.",
            ),
            fires=Example(
                series={f'{_SIZE}{{instance="a"}}': "3600000000x20", f'{_QUOTA}{{instance="a"}}': "4294967296x20"},
                at="15m",
            ),
            quiet=Example(
                series={f'{_SIZE}{{instance="a"}}': "3300000000x20", f'{_QUOTA}{{instance="a"}}': "4294967296x20"},
                at="15m",
            ),
        ),
    ),
)
