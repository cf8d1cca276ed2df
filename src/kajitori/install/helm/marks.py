"""Settings with marks as values. `templates` finds a mark in the rendered objects by its form, kajimark-KIND-VALUE-end.

VALUE is the path of a value of the chart, such as `server.cpu`. KIND says which expression replaces the mark:

    text, quoted  the value, as it is or in quotes
    or            the value, or a default if it is empty
    yaml          a list or mapping
    block         a text of several lines
    each          a line for each entry of the value
    image         the name of an image with prefix and digest
    namespace     the namespace of the release
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kajitori.install.settings import (
    AgentSettings,
    GatewaySettings,
    HistorySettings,
    ImageSettings,
    InstallSettings,
    MonitoringSettings,
    PartSettings,
    SignInSettings,
    StoreSettings,
    TlsSettings,
)

MARK = re.compile(r"kajimark-([a-z]+)-([A-Za-z.]+)-end")
REPLICAS = {900001: "server.replicas", 900002: "controller.replicas", 900003: "relay.replicas"}
"""Marks of the numbers of replicas, which cannot be texts."""


def mark(kind: str, value: str) -> str:
    """Return the mark of a value of the chart."""
    return f"kajimark-{kind}-{value}-end"


def text_mark(value: str) -> str:
    """Return the mark of a text."""
    return mark("text", value)


def block_mark(value: str) -> str:
    """Return the mark of a text of several lines. It ends with a newline, so that YAML writes it as a block."""
    return mark("block", value) + "\n"


def marked_settings(tls: TlsSettings) -> InstallSettings:
    """Return settings with marks as values, which the chart replaces by expressions. The values are not validated."""
    defaults = InstallSettings()
    parts = {name: _marked_part(name, getattr(defaults, name), number) for number, name in _parts_with_replicas()}
    parts["server"] = parts["server"].model_copy(
        update={
            "service": text_mark("server.service"),
            "namespace": text_mark("server.namespace"),
            "url": mark("or", "server.url"),
        }
    )
    return defaults.model_copy(
        update={
            "namespace": mark("namespace", "x"),
            "images": _marked_images(),
            "tls": tls,
            "agents": _marked_agents(),
            "store": StoreSettings().model_copy(
                update={"url": text_mark("store.url"), "secret": mark("or", "store.secret")}
            ),
            "history": HistorySettings().model_copy(
                update={"url": text_mark("history.url"), "secret": text_mark("history.secret")}
            ),
            "sign_in": _marked_sign_in(),
            **parts,
            "gateway": _marked_gateway(),
            "monitoring": MonitoringSettings().model_copy(
                update={
                    "labels": {"kajimark": mark("yaml", "monitoring.labels")},
                    "runbook_url": text_mark("monitoring.runbookUrl"),
                }
            ),
            "monitoring_namespace": text_mark("monitoringNamespace"),
        }
    )


def _marked_images() -> ImageSettings:
    return ImageSettings().model_copy(
        update={
            "parts": mark("image", "parts"),
            "members": mark("image", "members"),
            "pull_secrets": [mark("each", "images.pullSecrets")],
            "pull_policy": text_mark("images.pullPolicy"),
        }
    )


def _marked_agents() -> AgentSettings:
    return AgentSettings().model_copy(
        update={
            "cpu": text_mark("agents.cpu"),
            "memory": text_mark("agents.memory"),
            "memory_limit": text_mark("agents.memoryLimit"),
            "node_selector": {"kajimark": mark("yaml", "agents.nodeSelector")},
            "relay_url": mark("or", "agents.relayUrl"),
            "policy": {"kajimark": mark("yaml", "agents.policy")},
            "metrics_secret": text_mark("agents.metricsSecret"),
        }
    )


def _marked_sign_in() -> SignInSettings:
    return SignInSettings().model_copy(
        update={
            "issuer": text_mark("signIn.issuer"),
            "client_id": text_mark("signIn.clientId"),
            "scopes": text_mark("signIn.scopes"),
            "url": text_mark("signIn.url"),
            "programs_url": text_mark("signIn.programsUrl"),
            "ca": block_mark("signIn.ca"),
            "client_secret": text_mark("signIn.clientSecret"),
        }
    )


def _marked_gateway() -> GatewaySettings:
    return GatewaySettings(enabled=True).model_copy(
        update={
            "prefix": mark("quoted", "gateway.prefix"),
            "username_claim": text_mark("gateway.usernameClaim"),
            "groups_claim": text_mark("gateway.groupsClaim"),
            "groups": [mark("each", "gateway.groups")],
            "users": [mark("each", "gateway.users")],
        }
    )


def _parts_with_replicas() -> Iterable[tuple[int, str]]:
    return [(number, path.partition(".")[0]) for number, path in REPLICAS.items()]


def _marked_part(name: str, part: PartSettings, number: int) -> PartSettings:
    return part.model_copy(
        update={
            "replicas": number,
            "cpu": text_mark(f"{name}.cpu"),
            "memory": text_mark(f"{name}.memory"),
            "memory_limit": text_mark(f"{name}.memoryLimit"),
            "node_selector": {"kajimark": mark("yaml", f"{name}.nodeSelector")},
            "tolerations": [mark("yaml", f"{name}.tolerations")],
            "arguments": [mark("each", f"{name}.arguments")],
        }
    )
