"""ID tokens of people as credentials of the embedded API server."""

from __future__ import annotations

from kajitori.embedded.apiserver.auth import AUTHENTICATED, User
from kajitori.openid.authentication_config import AuthenticationConfiguration
from kajitori.openid.id_tokens import IdTokens


class PeopleTokens:
    """Verifies the ID tokens of the providers in an AuthenticationConfiguration."""

    def __init__(self, accepted: AuthenticationConfiguration) -> None:
        self._tokens = IdTokens(accepted.jwt)

    async def user_of(self, token: str) -> User | None:
        """Return the user of an ID token; None if it is not accepted. Every user is in `system:authenticated`."""
        person = await self._tokens.user_of(token)
        return User(person.name, (*person.groups, AUTHENTICATED)) if person is not None else None

    async def close(self) -> None:
        """Cancel running fetches of keys."""
        await self._tokens.close()
