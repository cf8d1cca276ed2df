"""`kaji server`: the Web API alone, for an existing cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kajitori.api.serving.server import ApiServer as WebApi
from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.gateway import Gateway, gateway_faults
from kajitori.cluster.platform.install import install
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.option_faults import raise_all
from kajitori.configuration.options.parts import ServerOptions
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.web_limits import WebLimits
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.parts.members_start import members_start
from kajitori.entrypoints.parts.stores import blobs_of, code_limits, history_of
from kajitori.entrypoints.parts.web_api import USER_AGENT, ApiDependencies, web_app
from kajitori.entrypoints.process import existing, run_until_told, stop_signal
from kajitori.kube.client import KubeClient
from kajitori.openid.authentication_config import parse_authentication
from kajitori.openid.id_tokens import IdTokens


@asynccontextmanager
async def _gateway_of(options: ServerOptions, client: KubeClient) -> AsyncIterator[Gateway | None]:
    """Yield the gateway of these options; None if they name none. Raises InvalidInput if its file cannot be used."""
    file, account = options.gateway_authentication, options.gateway_account
    if file is None or account is None:
        yield None
        return
    accepted = parse_authentication(await asyncio.to_thread(file.read_bytes))
    raise_all(gateway_faults(accepted, str(file)))
    gateway = Gateway(client, account, IdTokens(accepted.jwt), user_agent=USER_AGENT)
    try:
        yield gateway
    finally:
        await gateway.close()


def server(options: ServerOptions) -> int:
    """Run the Web API alone, for an existing cluster."""

    async def work() -> None:
        stop = stop_signal()
        async with existing(options.kubeconfig, options.context) as client:
            await install(client)
            policy = PolicyFile(options.policy, required=True)
            networks = NetworksFile(options.networks, required=True)
            blobs = await blobs_of(options.blobs)
            async with (
                Mirror(client) as mirror,
                members_start(policy, options),
                history_of(options.history, options.history_password_file) as history,
                _gateway_of(options, client) as gateway,
            ):
                await mirror.wait_synced()
                app = web_app(
                    ApiDependencies(
                        client=client,
                        mirror=mirror,
                        policy=policy,
                        networks=networks,
                        namespace=options.namespace,
                        controller_namespace=options.controller_namespace,
                        kept_logs=KeptLogs(blobs) if blobs is not None else None,
                        code=CodeStore(blobs, code_limits(policy)) if blobs is not None else None,
                        blobs=blobs,
                        history=history,
                        agent_account=options.agent_account,
                        sign_in=options.sign_in(),
                        admit=gateway.admit if gateway is not None else None,
                        browser_access=options.browser_access(),
                        limits=WebLimits.parse(options.limit),
                    )
                )
                web = WebApi(
                    app, host=options.host, port=options.port, certificate=options.certificate, key=options.key
                )
                async with web:
                    say(f"Kajitori's Web API: {web.url}")
                    await stop.wait()

    return run_until_told(work(), options)
