"""Image, server and authority of members' first step from options, for a policy file that does not set them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kajitori.configuration.options.shared import MembersStart
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.tls_files import FileText, following
from kajitori.core.policy.file import Policy, with_first_step


@asynccontextmanager
async def members_start(policy: PolicyFile, options: MembersStart) -> AsyncIterator[None]:
    """Complete the policy while the context lasts. A renewed authority is used for members that start later.

    Raises InvalidInput if the authority's file cannot be read.
    """
    image, server = options.member_image, options.member_server
    if image is None or server is None:
        yield
        return
    authority = FileText("--member-ca", options.member_ca) if options.member_ca is not None else None

    def fill(given: Policy) -> Policy:
        return with_first_step(given, image, server, authority.text if authority is not None else None)

    policy.complete(fill)
    if authority is None:
        yield
        return

    def look() -> None:
        if authority.refresh():
            policy.complete(fill)

    async with following(look):
        yield
