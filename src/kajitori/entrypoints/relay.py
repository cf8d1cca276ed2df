"""`kaji relay`: the watch cache between node agents and the API server."""

from __future__ import annotations

import ssl

from kajitori.configuration.settings import RelayOptions
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.process import existing, run_until_told, stop_signal
from kajitori.errors import Fault, InvalidInput
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.platform.agents import AgentTokens
from kajitori.kube.resources import PODS, RUNS
from kajitori.relay.server import RelayServer


def relay(options: RelayOptions) -> int:
    """Serve one mirror of Pods and Runs to the agents on nodes. Several relays may run at the same time."""
    token = options.token_file.read_text().strip() if options.token_file is not None else ""
    if options.token_file is not None and not token:
        raise InvalidInput([Fault("--token-file", "is empty", str(options.token_file), "write a long random word")])

    async def work() -> None:
        stop = stop_signal()
        async with (
            existing(options.kubeconfig, options.context) as client,
            Mirror(client, (PODS, RUNS)) as mirror,
        ):
            await mirror.wait_synced()
            account = options.agent_account
            agents = AgentTokens(client, mirror, account) if account is not None else None
            server = RelayServer(
                mirror, host=options.host, port=options.port, agents=agents, token=token, tls=_tls(options)
            )
            async with server:
                say(f"Kajitori's relay: {server.url}")
                await stop.wait()

    return run_until_told(work(), options)


def _tls(options: RelayOptions) -> ssl.SSLContext | None:
    if options.certificate is None or options.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        message = f"can't be used: {getattr(error, 'reason', None) or error}"
        hint = "give PEM files of a certificate and its key"
        raise InvalidInput([Fault("--tls-cert", message, str(options.certificate), hint)]) from error
    return context
