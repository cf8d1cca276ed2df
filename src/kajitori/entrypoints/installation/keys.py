"""Secrets that an installation makes: the certificates of parts and agents, and the key of browsers' sessions."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from secrets import token_bytes

from kajitori.cluster.platform.applying import apply, find
from kajitori.configuration.options.operators import InstallOptions
from kajitori.configuration.sign_in import SHORTEST_KEY_BYTES
from kajitori.core.naming import names
from kajitori.entrypoints.installation.planning import Say, secret_id, with_client
from kajitori.errors import Forbidden, Unavailable
from kajitori.install.parts.certificates import ends, issue, issued_in, names_in, secret, secrets
from kajitori.install.settings import (
    CA_SECRET,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    TLS_SECRET,
    InstallSettings,
)
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS


def renew_certificates(options: InstallOptions, say: Say) -> None:
    """Renew the certificates of parts and agents if they end soon. The processes read them again by themselves."""

    async def work(client: KubeClient) -> None:
        namespace = options.namespace or names.NAMESPACE
        settings = InstallSettings(namespace=namespace)
        parts = await client.get(SECRETS, TLS_SECRET, namespace)
        authority = await client.get(SECRETS, CA_SECRET, namespace)
        try:
            agents = await find(client, secret_id(TLS_SECRET, settings.agents_namespace))
        except Forbidden:  # an installation without agents
            agents = None
        before = issued_in(authority.get("data"), parts.get("data"), (agents or {}).get("data"))
        assert before is not None
        of_agents = settings.agents_certificate_names if agents is not None else ()
        try:
            after = issue(names_in(before.parts.certificate), datetime.now(UTC), before, agents=of_agents)
        except ValueError as error:
            message = f"the Secret {namespace}/{TLS_SECRET} holds no certificate that can be read: {error}"
            raise Unavailable(message, hint="kaji install makes another one") from error
        for change in after.changes:
            say(change)
        if after.changes:
            for document in secrets(after, namespace, settings.agents_namespace if of_agents else ""):
                await apply(client, document)
        say(f"The certificate ends on {ends(after.parts.certificate):%Y-%m-%d}.")

    return with_client(options, work)


async def apply_certificates(client: KubeClient, settings: InstallSettings, say: Say) -> None:
    """Make the authority and the certificates of parts and agents, or renew what ends soon or lacks a name."""
    spaces = [settings.namespace, *([settings.agents_namespace] if settings.agents.enabled else [])]
    stored = [await find(client, secret_id(CA_SECRET, settings.namespace))]
    stored += [await find(client, secret_id(TLS_SECRET, space)) for space in spaces]
    data = [(one.get("data") or {}) if one is not None else None for one in stored]
    of_agents = settings.agents_certificate_names if settings.agents.enabled else ()
    after = issue(settings.certificate_names, datetime.now(UTC), issued_in(*data), agents=of_agents)
    for change in after.changes:
        say(change)
    for document in secrets(after, *spaces):
        await apply(client, document)


async def ensure_sign_in_key(client: KubeClient, namespace: str, say: Say) -> None:
    """Make the key that encrypts the cookies of browsers, unless there is one: a new key ends all sessions."""
    found = await find(client, secret_id(SIGN_IN_SECRET, namespace))
    key = base64.b64decode(((found or {}).get("data") or {}).get(SIGN_IN_KEY, ""))
    if len(key) >= SHORTEST_KEY_BYTES:
        return
    await apply(client, secret(SIGN_IN_SECRET, namespace, {SIGN_IN_KEY: token_bytes(SHORTEST_KEY_BYTES)}))
    say(f"made the key of browsers' sessions, Secret {SIGN_IN_SECRET}")
