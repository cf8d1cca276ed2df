"""Answers about people."""

from __future__ import annotations

from typing import Literal

from kajitori.api.views.base import View


class SignInView(View):
    """The provider where users sign in."""

    issuer: str
    """URL of the OpenID provider; empty: this server offers no sign-in, and callers send a token of the cluster."""
    client_id: str
    scopes: list[str]
    certificate_authority: str
    """The authorities (PEM) that signed the provider's certificate; empty: those of the caller's machine."""
    namespace: str
    """Namespace of runs that name none."""


class SignInLink(View):
    """A link that signs a browser in, once."""

    code: str
    """The part of an address behind `#sign-in=`, which browsers do not send to proxies."""
    user: str
    """User for whom the browser gets a session."""
    expires_in_seconds: int


class NamespaceRights(View):
    """The caller's rights in a namespace."""

    namespace: str
    role: Literal["viewer", "user", "lead"]
    """viewer: see runs. user: also submit them. lead: also decide who else may."""
    logs: bool
    """Whether the caller may read what the runs printed."""
    secrets: bool
    """Whether the caller may create secrets for the runs."""


class TeamView(View):
    """A team of the policy."""

    name: str
    namespaces: list[str]
    groups: list[str]
    leads: list[str]
    viewers: list[str]
    yours: bool
    """Whether the caller is in one of its groups."""


class TeamList(View):
    """All teams, ordered by name."""

    items: list[TeamView]


class Robot(View):
    """A service account that was made for a robot."""

    name: str
    namespace: str
    user: str
    """How the API server names it."""
    role: str
    owner: str
    """User who made it."""
    created_at: str


class RobotList(View):
    """The robots of a namespace, ordered by name."""

    namespace: str
    items: list[Robot]
    note: str
    """Why no robot can be made here; empty if one can."""


class RobotToken(View):
    """A new token of a robot."""

    name: str
    namespace: str
    user: str
    role: str
    token: str
    """The token. It is not shown again."""
    expires_at: str


class WhoAmI(View):
    """The caller, as the API server authenticated them."""

    user: str
    groups: list[str]
    namespaces: list[NamespaceRights]
    """Namespaces where the caller may see runs: among those of the teams in the policy, those with runs, those with a
    RoleBinding of the caller or of a group of the caller, and the server's own."""
    everywhere: Literal["", "viewer", "user", "lead"]
    """The caller's role in all namespaces, also in those that have neither a team nor a run: a ClusterRoleBinding gives
    it. Empty if there is none."""
    operator: bool
    """Whether the caller may change nodes: drain them and take them back."""


class ChannelView(View):
    """A channel in which messages about runs arrive, without its URL."""

    name: str
    scheme: str
    """The service, as in the URL; `webhook` for a signed webhook."""
    kinds: list[str]
    """Kinds of messages that it gets, unless a run names others."""
    sent_at: str
    """Time of the last delivery; empty if there was none."""
    waiting: int
    """Messages that are not delivered yet."""
    error: str
    """Why the last request failed; empty after a delivery."""


class ChannelList(View):
    """The channels of a person or a team."""

    recipient: str
    is_team: bool
    items: list[ChannelView]


class MadeChannel(View):
    """A new channel."""

    name: str
    scheme: str
    kinds: list[str]
    key: str
    """Key that signs the requests of a webhook; empty for other channels. It is never shown again."""


class ChannelTest(View):
    """A test of a channel."""

    id: str
    state: Literal["waiting", "delivered", "failed"]
    error: str
