"""Impersonation: a request whose headers `Impersonate-…` ask for the rights of another user.

The rules are those of kube-apiserver (`WithImpersonation`): the caller needs the verb `impersonate` for the user, and
for each group, UID and extra field. It then has the rights of that user only.
"""

from __future__ import annotations

from urllib.parse import unquote

from multidict import MultiMapping

from kajitori.embedded.apiserver.access.roles import ACCOUNT_PREFIX, account_groups
from kajitori.embedded.apiserver.auth import ANONYMOUS, AUTHENTICATED, Attributes, Authorizer, User
from kajitori.embedded.apiserver.status import StatusError

_USER, _GROUP, _UID, _EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"
_REVIEWS = "authentication.k8s.io"


def impersonated(headers: MultiMapping[str], caller: User, authorizer: Authorizer) -> User:
    """Return the user with whose rights the request is authorized: the caller, unless the headers name another user.

    Raises:
        StatusError: 403 if the caller may not impersonate that user, 400 for groups without a user.
    """
    groups = headers.getall(_GROUP, [])
    uid = headers.get(_UID, "")
    extra: dict[str, tuple[str, ...]] = {}
    for key in dict.fromkeys(key.lower() for key in headers):
        if key.startswith(_EXTRA):
            extra[unquote(key.removeprefix(_EXTRA))] = tuple(headers.getall(key, []))
    name = headers.get(_USER, "")
    if not name:
        if groups or uid or extra:
            raise StatusError.bad_request("requested impersonation without impersonating a user")
        return caller
    asked = [_user_right(name), *(Attributes("impersonate", "", "v1", "groups", name=group) for group in groups)]
    if uid:
        asked.append(Attributes("impersonate", _REVIEWS, "v1", "uids", name=uid))
    for field, values in extra.items():
        asked += [Attributes("impersonate", _REVIEWS, "v1", "userextras", field, name=value) for value in values]
    for attributes in asked:
        if authorizer.refusal(caller, attributes):
            where = f'{attributes.resource} "{attributes.name}" is forbidden'
            message = f'{where}: User "{caller.name}" cannot impersonate resource "{attributes.resource}"'
            raise StatusError(403, "Forbidden", f'{message} in API group "{attributes.group}" at the cluster scope', {})
    if name.startswith(ACCOUNT_PREFIX) and not groups:
        groups = list(account_groups(name))
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups = [*groups, AUTHENTICATED]
    return User(name, tuple(groups), uid, extra)


def _user_right(name: str) -> Attributes:
    """Return the right to impersonate a user; service accounts are a resource of their own."""
    namespace, colon, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    if name.startswith(ACCOUNT_PREFIX) and colon:
        return Attributes("impersonate", "", "v1", "serviceaccounts", "", namespace, account)
    return Attributes("impersonate", "", "v1", "users", name=name)
