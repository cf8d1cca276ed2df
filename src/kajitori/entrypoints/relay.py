"""`kaji relay`: the watch cache between node agents and the API server."""

from __future__ import annotations

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.agents import AgentTokens
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.options.parts import RelayOptions
from kajitori.configuration.tls_files import ServingCertificate, followed
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.process import existing, run_until_told, stop_signal
from kajitori.errors import Fault, InvalidInput
from kajitori.kube.resources import PODS
from kajitori.relay.server import RelayServer


def relay(options: RelayOptions) -> int:
    """Serve one mirror of Pods and Runs to the agents on nodes. Several relays may run at the same time."""
    token = options.token_file.read_text().strip() if options.token_file is not None else ""
    if options.token_file is not None and not token:
        raise InvalidInput([Fault("--token-file", "is empty", str(options.token_file), "write a long random word")])

    tls = ServingCertificate.of(options.certificate, options.key)

    async def work() -> None:
        stop = stop_signal()
        async with (
            existing(options.kubeconfig, options.context) as client,
            Mirror(client, (PODS, RUNS)) as mirror,
        ):
            await mirror.wait_synced()
            account = options.agent_account
            agents = AgentTokens(client, mirror, account) if account is not None else None
            context = tls.context if tls is not None else None
            server = RelayServer(mirror, host=options.host, port=options.port, agents=agents, token=token, tls=context)
            async with server, followed(tls):
                say(f"Kajitori's relay: {server.url}")
                await stop.wait()

    return run_until_told(work(), options)
