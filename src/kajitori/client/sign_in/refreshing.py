"""A token that is valid now: the stored one, or a new one for the refresh token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kajitori.client.sign_in.asking import Asker
from kajitori.configuration import contexts
from kajitori.configuration.contexts import SignedIn
from kajitori.errors import Unauthenticated
from kajitori.openid.flows import Client
from kajitori.openid.tokens import Tokens


def renewed(
    path: Path, refused: str, *, asker: Callable[[str], Asker] = Asker, clock: Callable[[], float] = time.time
) -> SignedIn:
    """Return a context with another token than `refused`, which has expired or was not accepted. The new one is stored
    before it is used, because the provider accepts each refresh token once.

    Raises:
        Unauthenticated: the person has to sign in again.
    """
    with contexts.changing(path) as context:
        if context.token != refused and (not context.expires or context.expires > clock()):
            return context  # another process was faster
        if not context.refresh_token:
            raise again(context, "the sign-in has expired" if context.expires else "the server refuses the token")
        ask = asker(context.issuer_ca)
        client = Client(ask.provider(context.issuer), context.client_id, context.scopes)
        try:
            tokens = ask.refresh(client, Tokens(context.token, context.refresh_token))
        except Unauthenticated as error:
            raise again(context, error.message) from error
        made = replace(context, token=tokens.id_token, refresh_token=tokens.refresh_token, expires=tokens.expires)
        contexts.write(path, made)
        return made


def again(context: SignedIn, why: str) -> Unauthenticated:
    """Return the error for a user who must sign in again."""
    return Unauthenticated(why, hint=f"sign in again: kaji login {context.server}")
