"""Tokens of service accounts (TokenRequest): signed, valid until they expire or their account is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from kajitori.configuration.private_files import write_private
from kajitori.embedded.apiserver.access.roles import ACCOUNT_PREFIX, RoleView, account_groups
from kajitori.embedded.apiserver.auth import AUTHENTICATED, User
from kajitori.embedded.apiserver.causes import invalid
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.kube.resources import SERVICE_ACCOUNTS
from kajitori.openid.id_tokens import TokenRefused, claims_of

ISSUER = "https://kubernetes.default.svc"
DEFAULT_SECONDS = 3600
SHORTEST_SECONDS, LONGEST_SECONDS = 600, 1 << 32
_ALGORITHM = "ES256"


def ensure_key(path: Path) -> ECKey:
    """Return the key that signs tokens, from a file with mode 0600; it is created once."""
    if not path.exists():
        made = ECKey.generate_key("P-256")
        write_private(path, made.as_pem(private=True))
    return ECKey.import_key(path.read_bytes())


class AccountTokens:
    """Makes and verifies the tokens of service accounts."""

    def __init__(self, key: ECKey, view: RoleView, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._view = view
        self._clock = clock

    def issue(self, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """Return the answer to a TokenRequest for an account that exists.

        Raises:
            StatusError: 404, or 422 for a time that is too short or too long.
        """
        account = self._view.get(SERVICE_ACCOUNTS, namespace, name)
        if account is None:
            raise StatusError.not_found(SERVICE_ACCOUNTS, name)
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
        if not isinstance(seconds, int) or not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            why = f"must be between {SHORTEST_SECONDS} and {LONGEST_SECONDS} seconds"
            cause = invalid("spec.expirationSeconds", seconds, why)
            raise StatusError.invalid("authentication.k8s.io", "TokenRequest", name, [cause])
        now = int(self._clock())
        audiences = list(spec.get("audiences") or [ISSUER])
        claims = {
            "iss": ISSUER,
            "aud": audiences,
            "sub": f"{ACCOUNT_PREFIX}{namespace}:{name}",
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
            },
        }
        expires = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"audiences": audiences, "expirationSeconds": seconds},
            "status": {
                "token": jwt.encode({"alg": _ALGORITHM}, claims, self._key),
                "expirationTimestamp": expires,
            },
        }

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token that this server issued, if its account still exists; otherwise None."""
        try:
            if claims_of(token)[1].get("iss") != ISSUER:
                return None
            claims = jwt.decode(token, self._key, algorithms=[_ALGORITHM]).claims
            bound = claims["kubernetes.io"]
            namespace, account = str(bound["namespace"]), bound["serviceaccount"]
            stored = self._view.get(SERVICE_ACCOUNTS, namespace, str(account["name"]))
            if claims["exp"] <= self._clock() or ISSUER not in claims["aud"] or stored is None:
                return None
            if stored["metadata"]["uid"] != account["uid"] or stored["metadata"].get("deletionTimestamp"):
                return None
        except (TokenRefused, JoseError, ValueError, KeyError, TypeError):
            return None
        name = f"{ACCOUNT_PREFIX}{namespace}:{account['name']}"
        return User(name, (*account_groups(name), AUTHENTICATED), str(account["uid"]))

    async def close(self) -> None:
        """Do nothing: this class starts no background work."""
