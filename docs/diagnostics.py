"""Generated pages about reasons, errors, exit codes and metrics."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import yaml
from markdown_pages import DOCS, page, table
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

from kajitori import errors
from kajitori.client.exitcodes import EXIT_CODE_BY_REASON
from kajitori.cluster.runs.members import FIRST_STEP_REASONS
from kajitori.core.spec.reasons import COUNTS_AS_RESTART, NEVER_COUNTED, NEVER_RESTARTED, START_FAILURES, Reason
from kajitori.monitoring import controller, metrics
from kajitori.monitoring.alerts import GROUPS
from kajitori.monitoring.alerts.model import runbook


def exit_codes_page() -> str:
    """Exit codes of `kaji` and of a member's first step; the errors behind them, with their HTTP status."""
    lines = ["# Exit codes", "", "## kaji", ""]
    lines += ["`kaji run`, `kaji attach` and `kaji start -a` end with the program's exit code. `kaji wait` prints it."]
    lines += ["If the program has none, the run's reason decides:", ""]
    rows = [
        (str(code), f"`{reason}`") for reason, code in sorted(EXIT_CODE_BY_REASON.items(), key=lambda item: item[1])
    ]
    rows += [("143", "stopped by a user, and the exit code of rank 0 is not known"), ("125", "any other reason")]
    lines += [*table(("code", "reason"), rows), ""]
    lines += ["All verbs:", ""]
    codes = [
        ("0", "done"),
        ("1", "the answer is no, for example a node failed its test"),
        ("2", "wrong usage, or refused input"),
    ]
    codes += [
        ("125", "the platform failed, or a bug in kaji"),
        ("130", "interrupted with Ctrl-C"),
        ("141", "the reader of a pipe went away"),
    ]
    lines += [*table(("code", "meaning"), codes), "", "## Errors", ""]
    lines += ["`code` is in the Web API's answers (`application/problem+json`) and in JSON logs.", ""]
    rows = [(f"`{each.code}`", str(each.exit_code), str(each.http_status), what) for each, what in _errors()]
    lines += [
        *table(("code", "exit code", "HTTP status", "what happened"), rows),
        "",
        "## The first step of a member",
        "",
    ]
    lines += [
        "The init container `kajitori-start` ends with one of these. The run's status has the reason in words.",
        "",
    ]
    rows = [(str(code), f"`{reason}`", _advice()[reason]["means"]) for code, reason in FIRST_STEP_REASONS.items()]
    return page("\n".join([*lines, *table(("code", "reason", "meaning"), rows)]))


def _errors() -> Iterator[tuple[type[errors.KajitoriError], str]]:
    """Error classes with their words, in the order of the tree at the top of errors.py."""
    for name, what in re.findall(r"[├└]── (\w+) +(.+?) +exit", errors.__doc__ or ""):
        yield getattr(errors, name), what


def metrics_page() -> str:
    """Metrics of each process, as its own registry describes them."""
    lines = [
        "# Metrics",
        "",
        "Each process serves `/metrics` without credentials. No label holds the name of a run, a person or a",
    ]
    lines += ["node, except in the metrics of agents: [traffic](../operate/network/traffic.md#metrics) lists those."]
    of_controller = controller.ControllerMetrics(CollectorRegistry())
    for name in (controller.LEADING, controller.REQUESTS_AT_A_TIME, controller.MIRROR_AGE_SECONDS):
        of_controller.add_gauge(name, float)
    computed = [
        make() for make in vars(metrics).values() if inspect.isfunction(make) and "Metric" in str(make.__annotations__)
    ]
    of_api = [*_described(metrics.ApiMetrics(CollectorRegistry())), *map(_family, computed)]
    for title, rows in (("Web API", of_api), ("Controller", [*_described(of_controller), *_told(of_controller)])):
        lines += ["", f"## {title}", "", *table(("name", "type", "labels", "what"), sorted(set(rows)))]
    return page("\n".join(lines))


def _described(measured: object) -> Iterator[tuple[str, ...]]:
    for metric in vars(measured).values():
        if isinstance(metric, MetricWrapperBase):
            yield _family(next(iter(metric.collect())), metric._labelnames)


def _told(of_controller: controller.ControllerMetrics) -> Iterator[tuple[str, ...]]:
    described = {row[0] for row in _described(of_controller)}
    for family in of_controller.registry.collect():
        if _family(family)[0] not in described:
            yield _family(family)


def _family(family: Metric, labels: tuple[str, ...] = ()) -> tuple[str, ...]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    names = labels or getattr(family, "_labelnames", ())
    return f"`{name}`", family.type, ", ".join(f"`{label}`" for label in names), family.documentation


def reasons_page() -> str:
    """Meaning of each reason in a run's status, what to do, and whether the run starts again."""
    advice = _advice()
    lines = [
        "# Reasons",
        "",
        "A word under `REASON` in `kaji ps`, or `reason` in a run's status. `kaji describe RUN` shows the message",
    ]
    lines += ["that belongs to it."]
    for reason in filter(None, Reason):
        lines += ["", f"## {reason}", "", advice[reason]["means"], "", f"*What to do:* {advice[reason]['do']}"]
        lines += ["", f"*Restarts:* {_RESTARTS[reason]}"] if reason in _RESTARTS else []
    return page("\n".join(lines))


def _advice() -> dict[str, dict[str, str]]:
    """Words about each reason. Raises ValueError if they do not cover exactly the reasons that the code has."""
    advice: dict[str, dict[str, str]] = yaml.safe_load(
        (DOCS / "troubleshooting" / "advice.yaml").read_text(encoding="utf-8")
    )
    if difference := set(advice) ^ {reason for reason in Reason if reason}:
        raise ValueError(f"docs/troubleshooting/advice.yaml and the code differ in {', '.join(sorted(difference))}")
    return advice


def _restarts() -> Iterator[tuple[Reason, str]]:
    for reason in START_FAILURES:
        yield (
            reason,
            "the attempt is taken down and its nodes are freed; the next comes after a pause. It costs no restart.",
        )
    for reason in NEVER_COUNTED:
        yield reason, "the gang starts again; it costs no restart."
    for reason in COUNTS_AS_RESTART:
        yield reason, "the gang starts again, as often as `restarts` allows."
    for reason in NEVER_RESTARTED:
        yield reason, "none; the run ends, whatever `restarts` says."


_RESTARTS = dict(_restarts())


_ALERTS = """\
`kaji install` brings the rules below, and the dashboards *Kajitori*, *control plane* and *traffic*. If the cluster
has Prometheus Operator, the rules are a PrometheusRule, and PodMonitors say what to read; set
[`monitoring.labels`](../reference/settings.md) to the labels by which your Prometheus selects
rules. Else they are a file in the ConfigMap `kajitori-alerts`: mount it into Prometheus and name it under
`rule_files`. Grafana's sidecar finds the dashboards by the label `grafana_dashboard`; without the sidecar, import
`src/kajitori/monitoring/dashboards/*.json`. In the repository, `deploy/alerts` has the rules and their tests:
`promtool test rules deploy/alerts/tests.yaml`. Change a limit in a copy of both, not in the ConfigMap, which the next
`kaji install` overwrites.

## What Prometheus has to read

| target | where | for |
|---|---|---|
| Web API | Service `server`, port 8600, `/metrics`, https | state of runs, nodes, GPUs, guarantees |
| controllers | Pods `kajitori-controller`, port 8602, `/metrics`, https | queue, history, leadership |
| bands of runs | Web API, `/v1/stats/prometheus`, with a token that may list all runs | idle GPUs |
| agents | each node, port 9465, `/metrics`, https | traffic |
| kube-apiserver | `/metrics`, with a token that may `get` it | requests, webhooks, stored objects |
| etcd | `/metrics` on its metrics address (`--listen-metrics-urls`) | disk, size, leader |
| kube-scheduler, kube-controller-manager | their `/metrics` | their own rate limits |

Agents use their nodes' own network. Their metrics name Pods, runs, namespaces and users, and NetworkPolicies do not
cover that network. Agents serve them by TLS, with a certificate of their own, and with
[`agents.metricsSecret`](../reference/settings.md) they ask for a token; without it, everything that reaches the port
can read them. Make the Secret in the agents' namespace, and give Prometheus the same token and the authority:

```
head -c 32 /dev/urandom | base64 | tr -d '\\n' >token
kubectl -n kajitori-agents create secret generic kajitori-prometheus --from-file=token=token
kubectl -n kajitori-agents get secret kajitori-tls -o jsonpath='{.data.ca\\.crt}' | base64 -d >kajitori-ca.crt
```

```yaml
scrape_configs:
- job_name: kajitori-agents
  honor_labels: true                # they name namespaces and Pods themselves
  kubernetes_sd_configs: [{role: node}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_node_address_InternalIP], target_label: __address__, replacement: "$1:9465"}
  scheme: https                     # http, and nothing of what follows, with tls.certificates: none
  tls_config: {ca_file: /etc/prometheus/kajitori-ca.crt, server_name: agent.kajitori-agents}
  authorization: {credentials_file: /etc/prometheus/kajitori-token}
```

With Prometheus Operator, `kaji install`, the Helm chart and `deploy/alerts/monitors.yaml` bring PodMonitors of Web API,
controllers and agents, which say all of this; set [`monitoring.labels`](../reference/settings.md) to the labels by
which your Prometheus selects them, and `monitoring.monitors: false` if you write your own.

A managed control plane has no metrics of etcd, so the alerts about etcd never fire there; `KubeApiSlowWrites` shows
its problems indirectly. Each alert below has its meaning and the steps to take, the fastest check first.
"""


def alerts_page() -> str:
    """Every alert with its runbook."""
    return page("\n".join(["# Alerts and dashboards", "", _ALERTS, runbook(GROUPS).rstrip()]))


def messages_page() -> str:
    """Every message of an error in the code with its way out, by error. Parts that vary are shown as `…`."""
    by_error: dict[str, set[tuple[str, str]]] = {}
    for file in sorted((DOCS.parent / "src" / "kajitori").rglob("*.py")):
        for error, message, hint in messages_in(ast.parse(file.read_text(encoding="utf-8"))):
            by_error.setdefault(error, set()).add((message, "" if hint == "…" else hint))
    lines = [
        "# Error messages",
        "",
        "This page is generated from the code. `…` stands for a part that varies: search for",
    ]
    lines += ["words that do not vary. `kaji` prints the way out below the message."]
    meanings = {each.code: f"{what[0].upper()}{what[1:]}. Exit code {each.exit_code}." for each, what in _errors()}
    for error in sorted(by_error):
        lines += ["", f"## {error}", "", meanings.get(error, ""), ""]
        lines += table(("message", "way out"), sorted(by_error[error]))
    return page("\n".join(lines))


def messages_in(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Name of the error, its message and its hint, for each error that is made with words in place."""
    for call in ast.walk(tree):
        match call:
            case ast.Call(func=ast.Name(id="Fault")):
                error, words = "Invalid", call.args[1:2]
            case ast.Call(func=ast.Name(id="FieldError")):
                error, words = "Invalid", call.args[:1]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="one")) if hasattr(errors, name):
                error, words = getattr(errors, name).code, call.args[1:2]
            case ast.Call(func=ast.Name(id=name)) if isinstance(getattr(errors, name, None), type):
                error, words = getattr(getattr(errors, name), "code", "Invalid"), call.args[:1]
            case _:
                continue
        message = " ".join(_text_of(words[0]).split()) if words else ""
        hint = next((_text_of(each.value) for each in call.keywords if each.arg == "hint"), "")
        if re.search(r"[^\W\d]{3}", message):
            yield error, message, hint


def _text_of(node: ast.expr) -> str:
    """Return the constant parts of a text expression; other parts become `…`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return re.sub(
                "…+", "…", "".join(_text_of(part) if isinstance(part, ast.Constant) else "…" for part in parts)
            )
        case _:
            return "…"
