"""Alerts about Kajitori itself, and about nodes, GPUs and runs."""

from __future__ import annotations

from kajitori.monitoring import controller as of_controller
from kajitori.monitoring import metrics
from kajitori.monitoring.alerts.model import Alert, Example, Group, Severity, durations

_LEASE_AGE = metrics.CONTROLLER_LEASE_AGE_SECONDS
_STEP_BUCKET = f"{of_controller.STEP_SECONDS}_bucket"
_REQUEST_COUNT = f"{metrics.REQUEST_SECONDS}_count"


def _queue_example(running: int) -> Example:
    """Return an example of a queue that starts nothing while this number of runs is running."""
    series = {
        of_controller.WAITING_RUNS: "3x60",
        of_controller.ATTEMPTS: "7x60",
        f'{metrics.NODES}{{state="ready"}}': "4x60",
        f'{metrics.RUNS}{{phase="Running"}}': f"{running}x60",
    }
    return Example(series=series, at="50m")


def _messages_example(delivered: str) -> Example:
    """Return an example in which one message fails each minute."""
    series = {
        f'{of_controller.MESSAGES}{{outcome="failed"}}': "0+1x60",
        f'{of_controller.MESSAGES}{{outcome="delivered"}}': delivered,
        of_controller.MESSAGES_WAITING: "3x60",
    }
    return Example(series=series, at="50m")


def _requests_example(failed: int) -> Example:
    """Return an example of 90 answered requests a minute, and `failed` others."""
    series = {
        f'{_REQUEST_COUNT}{{status="503",route="/v1/runs"}}': f"0+{failed}x30",
        f'{_REQUEST_COUNT}{{status="200"}}': "0+90x30",
    }
    return Example(series=series, at="20m")


PARTS = Group(
    name="kajitori-parts",
    title="Kajitori's parts",
    alerts=(
        Alert(
            name="KajitoriNotMeasured",
            expr=f"absent({metrics.MIRROR_SYNCED}) or absent({of_controller.LEADING})",
            hold="10m",
            severity=Severity.WARNING,
            summary="Prometheus reads no metrics of the Web API or of the controllers",
            description="No series of the Web API or of the controllers for ten minutes.",
            means="""Without them the other alerts of this page can't fire. The parts may be well: then Prometheus does
            not find them, or a NetworkPolicy keeps it out.""",
            do=(
                "Look at the parts: `kubectl -n kajitori get pods`.",
                "Look at the page Targets of Prometheus. NetworkPolicies admit it to the controllers only from the "
                "namespace in the setting `monitoringNamespace`.",
            ),
            fires=Example(series={metrics.MIRROR_SYNCED: "1x30"}, at="20m"),
            quiet=Example(series={metrics.MIRROR_SYNCED: "1x30", of_controller.LEADING: "0x30"}, at="20m"),
        ),
        Alert(
            name="KajitoriNoLeader",
            expr=f"min({_LEASE_AGE}) > 20 or sum({of_controller.LEADING}) == 0",
            hold="2m",
            severity=Severity.CRITICAL,
            summary="No controller leads",
            description="No controller has renewed the Lease; nothing is planned, started or restarted.",
            means="""Running programs go on. No run starts, and a gang that breaks is not restarted. `kaji ps` tells
            users.""",
            do=(
                "`kubectl -n kajitori get pods -l app.kubernetes.io/name=kajitori-controller`, and the log of each.",
                "`kubectl -n kajitori get lease kajitori-controller -o yaml`: who held it, until when.",
                "If the controllers can't write the Lease, look at the alerts about kube-apiserver and etcd.",
            ),
            fires=Example(
                series={f'{_LEASE_AGE}{{instance="a"}}': "1 60 120 180 240 300", of_controller.LEADING: "0x9"}, at="5m"
            ),
            quiet=Example(
                series={f'{_LEASE_AGE}{{instance="a"}}': "1 60 1 1 1 1", of_controller.LEADING: "1 0 1 1 1 1"}, at="5m"
            ),
        ),
        Alert(
            name="KajitoriMirrorStale",
            expr=f"{of_controller.MIRROR_AGE_SECONDS} > 30 or {metrics.MIRROR_TROUBLED} == 1",
            hold="5m",
            severity=Severity.CRITICAL,
            summary="A part acts on an old state of the cluster",
            description="A watch of {{ $labels.instance }} on the API server has been broken for five minutes.",
            means="""A controller with an old state starts and restarts nothing. A Web API with an old state answers
            with it, and says so in `kaji ps`.""",
            do=(
                "`kubectl get --raw /readyz?verbose`, and the alerts about kube-apiserver.",
                "Read the part's log for `watch`; 403 means that its role is of another version: `kaji install`.",
            ),
            fires=Example(series={f'{metrics.MIRROR_TROUBLED}{{instance="a"}}': "0 1x15"}, at="10m"),
            quiet=Example(
                series={
                    f'{metrics.MIRROR_TROUBLED}{{instance="a"}}': "0 1 1 1 0x15",
                    f'{of_controller.MIRROR_AGE_SECONDS}{{instance="a"}}': "5x15",
                },
                at="10m",
            ),
        ),
        Alert(
            name="KajitoriQueueStuck",
            expr=f"""max({of_controller.WAITING_RUNS}) > 0 and sum(increase({of_controller.ATTEMPTS}[15m])) == 0
            and max by () ({metrics.NODES}{{state="ready"}}) > 0
            and sum(max by (phase) ({metrics.RUNS}{{phase=~"Starting|Running"}})) == 0""",
            hold="15m",
            severity=Severity.WARNING,
            summary="Runs wait, although nothing runs",
            description="{{ $value }} runs wait, nodes are ready, and no run was given nodes for half an hour.",
            means="""Either no waiting run fits on the cluster, even if it is empty, or the queue does not work.""",
            do=(
                "`kaji queue`, then `kaji explain RUN` for the first: it says what the run waits for.",
                "If it asks for more than there is, tell its owner. If nodes are held back, `kaji nodes` says why.",
                "If it should have started, look for errors in the leader's log, and report a bug with `kaji explain "
                "-o json`.",
            ),
            fires=_queue_example(running=0),
            quiet=_queue_example(running=1),
        ),
        Alert(
            name="KajitoriQueueSlow",
            expr=f'histogram_quantile(0.9, sum by (le) (rate({_STEP_BUCKET}{{step="full"}}[10m]))) > 10',
            hold="15m",
            severity=Severity.WARNING,
            summary="Planning the whole queue takes long",
            description="One cycle of the queue in ten takes {{ $value | humanizeDuration }} or longer.",
            means="Free nodes stay idle for that long before a waiting run gets them.",
            do=(
                f"Find the step: `histogram_quantile(0.9, sum by (step, le) (rate({_STEP_BUCKET}[10m])))`.",
                "Give the controllers more processor time (`controller.cpu`): the leader needs a whole core.",
                "Limit waiting runs per user in the policy.",
            ),
            fires=durations(of_controller.STEP_SECONDS, 'step="full"', ("10.0", "30.0"), fast=1, total=5, minutes=40),
            quiet=durations(of_controller.STEP_SECONDS, 'step="full"', ("10.0", "30.0"), fast=50, total=51, minutes=40),
        ),
        Alert(
            name="KajitoriHistoryBehind",
            expr=f"""max({of_controller.HISTORY_WAITING}) > 0
            and sum(increase({of_controller.HISTORY_FAILURES}[10m])) > 0""",
            hold="10m",
            severity=Severity.WARNING,
            summary="History can't be written",
            description="The database of history has not taken the news of {{ $value }} runs for ten minutes.",
            means="""Runs go on, and nothing is lost: the records wait in the Runs and in the outbox. Deleted runs stay
            visible for longer, and usage is out of date.""",
            do=(
                "`kaji history` names the error; so does the leader's log (`history is behind`).",
                "Look at the database: is it reachable, is its disk full, is the password right? See the page about "
                "history.",
            ),
            fires=Example(
                series={of_controller.HISTORY_WAITING: "5x30", of_controller.HISTORY_FAILURES: "0+2x30"}, at="20m"
            ),
            quiet=Example(
                series={of_controller.HISTORY_WAITING: "5x30", of_controller.HISTORY_FAILURES: "2x30"}, at="20m"
            ),
        ),
        Alert(
            name="KajitoriMessagesStuck",
            expr=f"""sum(increase({of_controller.MESSAGES}{{outcome!="delivered"}}[30m])) > 10
            and sum(increase({of_controller.MESSAGES}{{outcome="delivered"}}[30m])) == 0
            and max({of_controller.MESSAGES_WAITING}) > 0""",
            hold="10m",
            severity=Severity.WARNING,
            summary="No message to people or teams is delivered",
            description="{{ $value | humanize }} requests to services failed within half an hour, and none succeeded.",
            means="""Users are not told that their runs failed. Messages wait for a day; nothing is lost until then.""",
            do=(
                "The leader's log names the reason: `kubectl -n kajitori logs -l app.kubernetes.io/name="
                "kajitori-controller | grep 'did not reach'`.",
                "If it is the policy's section `notifications`, widen it or tell the channels' owners.",
                "If nothing can be reached, look at the egress rules and the DNS of the controllers' Pods. At a site "
                "with an HTTP proxy, name it in the policy (`notifications.proxy`).",
            ),
            fires=_messages_example(delivered="5x60"),
            quiet=_messages_example(delivered="0+1x60"),
        ),
        Alert(
            name="KajitoriLogsLost",
            expr=f"sum(increase({of_controller.LOGS_LOST}[30m])) > 0",
            hold="0m",
            severity=Severity.WARNING,
            summary="Logs of ended members were lost",
            description="{{ $value | humanize }} logs could not be saved within half an hour.",
            means="A node or the store did not answer in time, and the Pod was deleted without its log.",
            do=(
                "Read the leader's log for `log`: it names node or store.",
                "If it is the store, look at its credentials and its free space. If it is a node, `kaji nodes`.",
            ),
            fires=Example(series={of_controller.LOGS_LOST: "0x5 3x30"}, at="15m"),
            quiet=Example(series={of_controller.LOGS_LOST: "3x40"}, at="35m"),
        ),
        Alert(
            name="KajitoriWritesRefused",
            expr=f"""sum by (method, resource, status)
            (increase({of_controller.WRITE_ERRORS}{{status!~"404|409"}}[15m])) > 5""",
            hold="10m",
            severity=Severity.WARNING,
            summary="The API server refuses writes of the controllers",
            description="{{ $labels.method }} {{ $labels.resource }} failed {{ $value | humanize }} times with "
            "{{ $labels.status }} (0: no answer).",
            means="Something that a decision needs was not done. It is tried again.",
            do=(
                "403: the roles are of another version; run `kaji install` with the version of the parts.",
                "400 or 422: an admission policy or webhook of the cluster refuses the object; the leader's log has "
                "its text.",
                "0, 429 or 5xx: look at the alerts about kube-apiserver.",
            ),
            fires=Example(
                series={f'{of_controller.WRITE_ERRORS}{{method="POST",resource="pods",status="403"}}': "0+1x40"},
                at="30m",
            ),
            quiet=Example(
                series={f'{of_controller.WRITE_ERRORS}{{method="PUT",resource="runs",status="409"}}': "0+9x40"},
                at="30m",
            ),
        ),
        Alert(
            name="KajitoriWebApiFails",
            expr=f'sum(rate({_REQUEST_COUNT}{{status=~"5.."}}[5m])) / sum(rate({_REQUEST_COUNT}[5m])) > 0.05',
            hold="10m",
            severity=Severity.WARNING,
            summary="The Web API answers requests with errors",
            description="{{ $value | humanizePercentage }} of all requests to the Web API failed.",
            means="Users see errors in `kaji`. Runs go on.",
            do=(
                f'Find the call: `topk(5, sum by (route, status) (rate({_REQUEST_COUNT}{{status=~"5.."}}[5m])))`.',
                "Read the Web API's log; each error has a code that the page about exit codes explains.",
            ),
            fires=_requests_example(failed=10),
            quiet=_requests_example(failed=1),
        ),
        Alert(
            name="KajitoriPolicyFaulty",
            expr=f"max({metrics.POLICY_FAULTS}) > 0",
            hold="5m",
            severity=Severity.WARNING,
            summary="The policy file has errors, and the previous policy stays in effect",
            description="The policy file has {{ $value }} errors. The previous policy stays in effect.",
            means="A change to the policy has no effect until its errors are corrected.",
            do=("`kaji policy check FILE` lists every error with its correction.",),
            fires=Example(series={metrics.POLICY_FAULTS: "0 2x15"}, at="10m"),
            quiet=Example(series={metrics.POLICY_FAULTS: "0 2 2 0x15"}, at="10m"),
        ),
        Alert(
            name="KajitoriAgentSilent",
            expr=f"time() - {metrics.AGENT_READ_AT} > 300",
            hold="5m",
            severity=Severity.WARNING,
            summary="An agent counts no traffic",
            description="The agent {{ $labels.instance }} last read its counters {{ $value | humanizeDuration }} ago.",
            means="The traffic of this node's Pods is not counted while the agent is away. Nothing else depends on it.",
            do=(
                "`kubectl -n kajitori-agents get pods -o wide`, and the log of the agent on this node.",
                "If all agents are silent, look at the relay: agents learn about their Pods from it.",
            ),
            fires=Example(series={f'{metrics.AGENT_READ_AT}{{instance="gpu-1"}}': "0x30"}, at="20m"),
            quiet=Example(series={f'{metrics.AGENT_READ_AT}{{instance="gpu-1"}}': "0+60x30"}, at="20m"),
        ),
    ),
)

_PROMISED, _USED = metrics.GUARANTEED, metrics.GUARANTEED_USED


def _idle_example(waiting: int) -> Example:
    """Return an example of eight idle GPUs while this number of runs waits."""
    return Example(
        series={f'{metrics.GPUS_IDLE}{{type="h100"}}': "8x120", of_controller.WAITING_RUNS: f"{waiting}x120"}, at="90m"
    )


def _without_progress(running: int) -> Example:
    """Return an example of six runs without progress among this number of runs."""
    series = {
        f'{metrics.RUNS_STUCK}{{verdict="suspected",instance="a"}}': "4x20",
        f'{metrics.RUNS_STUCK}{{verdict="stuck",instance="a"}}': "2x20",
        f'{metrics.RUNS}{{phase="Running",instance="a"}}': f"{running}x20",
    }
    return Example(series=series, at="15m")


def _guarantee_example(used: int) -> Example:
    """Return an example of a team that waits, is guaranteed 64 GPUs, and uses this number of them."""
    labels = 'team="vision",type="h100",resource="gpus",instance="a"'
    series = {
        f'{metrics.GUARANTEED_WAITING}{{team="vision",instance="a"}}': "2x90",
        f"{_PROMISED}{{{labels}}}": "64x90",
        f"{_USED}{{{labels}}}": f"{used}x90",
    }
    return Example(series=series, at="80m")


CLUSTER = Group(
    name="kajitori-cluster",
    title="Nodes, GPUs and runs",
    alerts=(
        Alert(
            name="KajitoriGpusBroken",
            expr=f'max by (type) ({metrics.GPUS}{{state="broken"}}) > 0',
            hold="15m",
            severity=Severity.WARNING,
            summary="GPUs can't be used",
            description="{{ $value }} GPUs of type {{ $labels.type }} are broken, or their nodes are out of the pool.",
            means="The nodes are not ready, cordoned, or unhealthy, or report fewer GPUs than they have.",
            do=(
                "`kaji nodes` says why each node is out; `kaji nodes NODE` has its history.",
                "On the node: `nvidia-smi -q -d ECC,ROW_REMAPPER`, and Xid errors in `dmesg`.",
                "After the repair: `kaji preflight NODE`, then `kaji uncordon NODE`.",
            ),
            fires=Example(series={f'{metrics.GPUS}{{type="h100",state="broken"}}': "8x30"}, at="20m"),
            quiet=Example(series={f'{metrics.GPUS}{{type="h100",state="broken"}}': "8x10 0x20"}, at="20m"),
        ),
        Alert(
            name="KajitoriGpusIdle",
            expr=f'max_over_time({metrics.RUN_GPU_USED}{{statistic="most"}}[2h]) < 2',
            hold="30m",
            severity=Severity.WARNING,
            summary="A run holds GPUs and uses none of them",
            description="The GPUs of {{ $labels.namespace }}/{{ $labels.run }} were busy for at most "
            "{{ $value | humanize }} percent of any minute within two hours.",
            means="""The run keeps GPUs from others. It may be a forgotten notebook, or a program that hangs or computes
            without GPUs.""",
            do=(
                "`kaji idle --all-users` shows since when, who owns it, and what the owner answered.",
                "The owner was asked. If others wait, `kaji park RUN` frees the GPUs and keeps its checkpoint.",
            ),
            fires=Example(
                series={f'{metrics.RUN_GPU_USED}{{namespace="nlp",run="x",statistic="most"}}': "0x200"}, at="180m"
            ),
            quiet=Example(
                series={f'{metrics.RUN_GPU_USED}{{namespace="nlp",run="x",statistic="most"}}': "0x100 70x5 0x95"},
                at="180m",
            ),
        ),
        Alert(
            name="KajitoriNodesSuspected",
            expr=f"max({metrics.NODES_SUSPECTED}) > 0",
            hold="10m",
            severity=Severity.WARNING,
            summary="Many nodes look unhealthy at once",
            description="{{ $value }} nodes look unhealthy and stay in the pool, because too many are out already.",
            means="""A common cause is likely, for example the network, a driver or a file system, so Kajitori takes no
            more nodes out.""",
            do=(
                "`kaji nodes` shows the evidence against each; look for what they share: a rack, a switch, an image.",
                "When the cause is gone: `kaji nodes NODE --healthy` for each.",
            ),
            fires=Example(series={metrics.NODES_SUSPECTED: "3x20"}, at="15m"),
            quiet=Example(series={metrics.NODES_SUSPECTED: "3x5 0x20"}, at="15m"),
        ),
        Alert(
            name="KajitoriGuaranteeUnmet",
            expr=f"""max by (team) ({metrics.GUARANTEED_WAITING}) > 0 and on (team)
            max by (team) ({_PROMISED} > on (instance, team, type, resource) {_USED}) > 0""",
            hold="1h",
            severity=Severity.WARNING,
            summary="A team waits for nodes that it is guaranteed",
            description="{{ $value }} runs of team {{ $labels.team }} wait, and for an hour the team has used less "
            "than its guarantee.",
            means="""The guaranteed amount is broken, or held by runs that policy does not preempt, or the waiting runs
            are larger than the rest of the guarantee.""",
            do=(
                "`kaji explain RUN` for the team's first waiting run: it says what it waits for, and who holds it.",
                "`kaji gpus` shows guarantees with their use, and broken GPUs.",
                "If guarantees are larger than the cluster, `kaji policy check --live` says so.",
            ),
            fires=_guarantee_example(used=16),
            quiet=_guarantee_example(used=64),
        ),
        Alert(
            name="KajitoriGpusIdleWhileRunsWait",
            expr=f"max by (type) ({metrics.GPUS_IDLE}) > 0 and on () max({of_controller.WAITING_RUNS}) > 0",
            hold="1h",
            severity=Severity.WARNING,
            summary="Runs wait while others hold idle GPUs",
            description="{{ $value }} GPUs of type {{ $labels.type }} are held and unused, and runs wait.",
            means="""Policy says after how many hours a GPU counts as idle (`idle`). The owners were asked; nothing is
            stopped without an answer, unless policy says so.""",
            do=(
                "`kaji idle --all-users` shows the runs, since when they are idle, and what their owners answered.",
                "`kaji park RUN` frees the GPUs of a run and keeps its checkpoint.",
            ),
            fires=_idle_example(waiting=2),
            quiet=_idle_example(waiting=0),
        ),
        Alert(
            name="KajitoriRunStuck",
            expr=f'max({metrics.RUNS_STUCK}{{verdict="stuck"}}) > 0',
            hold="10m",
            severity=Severity.WARNING,
            summary="A run is stuck",
            description="{{ $value }} runs make no progress, and their processes stand still.",
            means="""It holds nodes and computes nothing. Its owner was told. A run with `--on-stuck restart` does not
            get here, because it is restarted at once.""",
            do=(
                "Find it: `kaji ps --all-users`. `kaji why RUN` names the rank that the others wait for, and its node.",
                "If the owner does not answer, `kaji stop RUN` frees the nodes.",
            ),
            fires=Example(series={f'{metrics.RUNS_STUCK}{{verdict="stuck"}}': "1x20"}, at="15m"),
            quiet=Example(
                series={
                    f'{metrics.RUNS_STUCK}{{verdict="suspected"}}': "1x20",
                    f'{metrics.RUNS_STUCK}{{verdict="stuck"}}': "1x5 0x15",
                },
                at="15m",
            ),
        ),
        Alert(
            name="KajitoriRunsWithoutProgress",
            expr=f"""max(sum without (verdict) ({metrics.RUNS_STUCK})) >= 5
            and max(sum without (verdict) ({metrics.RUNS_STUCK})) > 0.1 * max({metrics.RUNS}{{phase="Running"}})""",
            hold="5m",
            severity=Severity.CRITICAL,
            summary="Many runs stopped making progress",
            description="{{ $value }} runs, a tenth of all that run or more, are stuck or suspected to be.",
            means="""Programs hang one at a time. If many stop together, they share what they wait for: a file system, a
            network, or a service.""",
            do=(
                "`kaji why RUN` for two or three of them: compare their nodes, and whether they wait for a file or "
                "for a socket.",
                "Look at the storage and the network that these nodes share. Most runs continue when it is back.",
            ),
            fires=_without_progress(running=20),
            quiet=_without_progress(running=200),
        ),
        Alert(
            name="KajitoriRunRestartsAgainAndAgain",
            expr=f"max({metrics.RUNS_UNSTABLE}) > 0",
            hold="10m",
            severity=Severity.WARNING,
            summary="A run starts again and again",
            description="{{ $value }} runs had five or more restarts or interruptions, the last within an hour.",
            means="""It holds nodes and makes no progress: an image that can't be pulled, a node that breaks each
            attempt, or a program that fails after its start.""",
            do=(
                "Find it: `kaji ps --all-users -o wide`, then `kaji describe RUN` for its last setbacks.",
                "If the reason is the program's, tell its owner. If all setbacks name one node, `kaji drain NODE`.",
            ),
            fires=Example(series={metrics.RUNS_UNSTABLE: "1x20"}, at="15m"),
            quiet=Example(series={metrics.RUNS_UNSTABLE: "1x5 0x20"}, at="15m"),
        ),
        Alert(
            name="KajitoriRunUnhealthy",
            expr=f'max({metrics.RUNS_CHECKED}{{health="unhealthy"}}) > 0',
            hold="15m",
            severity=Severity.WARNING,
            summary="The health check of a run fails",
            description="{{ $value }} runs with a health check are unhealthy.",
            means="""The check of at least one member fails as often as its retries say. Nothing restarts the member,
            and names still lead to it. Runs that wait until it is healthy (`--after RUN:healthy`) do not start.""",
            do=(
                "Find it: `kaji ps --all-users` says unhealthy. `kaji describe RUN` names the ranks and what the check "
                "printed.",
                "If several became unhealthy together, look at what they share: a node, a network, a file system.",
                "Otherwise tell the owner. `kaji restart RUN` starts it again.",
            ),
            fires=Example(series={f'{metrics.RUNS_CHECKED}{{health="unhealthy"}}': "1x30"}, at="20m"),
            quiet=Example(
                series={
                    f'{metrics.RUNS_CHECKED}{{health="starting"}}': "1x30",
                    f'{metrics.RUNS_CHECKED}{{health="unhealthy"}}': "1x10 0x20",
                },
                at="20m",
            ),
        ),
    ),
)
