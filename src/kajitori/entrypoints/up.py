"""`kaji up`: the whole platform in one process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kajitori.agent.servers import Servers
from kajitori.api.serving.server import ApiServer as WebApi
from kajitori.blobs.code import CodeStore
from kajitori.blobs.history_outbox import HistoryOutbox
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.questions import Questions
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.applying import apply
from kajitori.cluster.platform.install import install
from kajitori.cluster.view import ClusterView
from kajitori.configuration import cluster_file
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.tls_files import TrustedAuthorities
from kajitori.configuration.web_limits import WebLimits
from kajitori.controllers.run_controller import RunController
from kajitori.core.formats.node_lists import brief, compress
from kajitori.core.naming import names
from kajitori.core.policy.file import on_own_cluster
from kajitori.embedded.apiserver.certificates import ensure_token, issue_serving
from kajitori.embedded.cluster import OBJECTS, EmbeddedCluster, EmbeddedSettings, last_port, remember_port
from kajitori.embedded.kubelet.engine import detection as engines
from kajitori.embedded.kubelet.kubelet import Kubelet, require_pod_network
from kajitori.embedded.kubelet.machine.detection import try_mounts
from kajitori.embedded.simulator import SimulatedNodes
from kajitori.embedded.simulator.former import remove_former_nodes
from kajitori.embedded.store.repair import repair
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.parts.leader import candidate
from kajitori.entrypoints.parts.own_cluster import ADDRESSES_PATIENCE_SECONDS, OwnController, OwnNode
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.entrypoints.parts.serving import Serving, serving_of
from kajitori.entrypoints.parts.stores import code_limits, history_of
from kajitori.entrypoints.parts.telemetry import telemetry
from kajitori.entrypoints.parts.up_settings import (
    authentication_of,
    browser_access_of,
    default_policy_of,
    own_kubelet,
    policy_of,
    sign_in_of,
)
from kajitori.entrypoints.parts.up_texts import how_to_use, repair_report
from kajitori.entrypoints.parts.web_api import USER_AGENT, ApiDependencies, web_app
from kajitori.entrypoints.process import Part, ensure_namespace, run_until_told, stop_signal, supervise
from kajitori.entrypoints.sim import LABEL_OF_UP, grace_seconds, heartbeat_seconds, pools_of
from kajitori.errors import Unavailable
from kajitori.install.parts.roles import people, teams
from kajitori.install.parts.teams import team_objects
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.monitoring.controller import LEADING, ControllerMetrics

OWN_IMAGE = "kajitori"
"""Name of the image of members' first step in `kaji up`. The machine's own Python runs the step, and not an image."""


MakeController = Callable[[KubeClient], RunController]
"""Makes a run controller that writes through a client."""


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """The cluster on which the platform runs, and how this process works on it."""

    client: KubeClient
    token: str
    """Token of commands on this machine."""
    kubeconfig: Path | None
    parts: Sequence[tuple[str, Part]] = ()
    """Parts that run beside the platform: those of an embedded cluster."""
    kubelet: Kubelet | None = None
    """The kubelet of this machine; one of `parts`."""
    user_client: Callable[[str], KubeClient] | None = None
    """Returns the client for a caller's token; None: the API server checks the tokens of all callers."""
    elected: Callable[[MakeController], Part] | None = None
    """Returns a part that creates and runs a controller whenever this process is elected leader. None: this process has
    the only controller, which starts at once."""


def up(options: UpOptions) -> int:
    """Run the whole platform in one process, on an embedded cluster or an existing one. The caller has claimed the data
    folder."""
    if options.kubeconfig is None:
        return run_until_told(_up_embedded(options), options)
    return run_until_told(_up_existing(options), options, may_lead=True)


async def _up_embedded(options: UpOptions) -> None:
    stop = stop_signal()
    settings = EmbeddedSettings(
        options.data,
        options.host,
        options.kube_port,
        in_memory=options.in_memory,
        namespace=options.namespace,
        cluster_cidr=options.cluster_cidr,
        node_prefix=options.node_cidr_mask_size,
        node_grace_seconds=grace_seconds(heartbeat_seconds(options.nodes)),
        authentication=authentication_of(options),
    )
    async with AsyncExitStack() as closing:
        if options.repair:
            say(repair_report(await asyncio.to_thread(repair, options.data / OBJECTS)))
        engine = await engines.find(options.engine) if options.kubelet else None
        require_pod_network(options.pod_network, engine)
        mounts = options.kubelet and (engine is not None or try_mounts(options.data / "probe").possible)
        images = engine is not None
        without_file = default_policy_of(options.data, mounts=mounts, images=images, simulated_nodes=options.nodes)
        policy = policy_of(options, without_file)
        cluster = await closing.enter_async_context(EmbeddedCluster(settings))
        metrics = ControllerMetrics.unread()
        config = cluster.client_config()
        client = await closing.enter_async_context(KubeClient(config, on_write_error=metrics.note_write_error))
        await install(client)
        for namespace in (options.namespace, LEASE_NAMESPACE, names.messages_namespace(LEASE_NAMESPACE)):
            await ensure_namespace(client, namespace)
        if settings.authentication is not None:
            for document in (*people(), *teams(), *team_objects(policy.current().policy.teams)):
                await apply(client, document)

        serving = issue_serving(cluster.certificates, options.data / "sim", "sim", (options.host,))
        pools = [SimulatedNodes(client, pool, serving=serving) for pool in pools_of(options)]
        former = await remove_former_nodes(client, LABEL_OF_UP, {name for pool in pools for name in pool.numbers})
        if former:
            say(f"Removed simulated nodes that --nodes does not name any more: {brief(compress(former))}.")

        def late_seconds() -> float:
            return max((pool.late_seconds for pool in pools), default=0.0)

        async def controllers(stop: asyncio.Event) -> None:
            await cluster.run_controllers(client, stop, workload=RUN_WORKLOAD, late_seconds=late_seconds)

        parts: list[tuple[str, Part]] = [("embedded cluster", controllers)]
        parts += [("simulated nodes", pool.run) for pool in pools]
        kubelet = own_kubelet(options, cluster, client, engine) if options.kubelet else None
        if kubelet is not None:
            parts.append(("kubelet", kubelet.run))
        served_cluster = _Cluster(
            client=client, token=cluster.token, kubeconfig=cluster.kubeconfig, parts=parts, kubelet=kubelet
        )
        await _serve(options, served_cluster, policy, serving_of(options, cluster.certificates), metrics, stop)


async def _up_existing(options: UpOptions) -> None:
    """Run controller and Web API with the identity of the kubeconfig.

    Commands on this machine send a token from the data folder. For a caller with this token, the Web API acts with the
    kubeconfig's credentials. So certificates, credential plugins and tokens all work, and no credentials are copied.
    """
    stop = stop_signal()
    config = KubeConfig.discover(options.kubeconfig, options.context)
    policy = policy_of(options, None)
    token = ensure_token(options.data / "token")
    leadership = await candidate(config, LEASE_NAMESPACE, "")
    metrics = ControllerMetrics.unread()
    metrics.add_gauge(LEADING, lambda: leadership.leads)
    permit, on_write_error = leadership.permit, metrics.note_write_error
    async with (
        KubeClient(config) as client,
        KubeClient(config, write_permit=permit, on_write_error=on_write_error) as writer,
    ):

        def as_caller(bearer_token: str) -> KubeClient:
            if secrets.compare_digest(bearer_token.encode(), token.encode()):
                return KubeClient(config, user_agent=USER_AGENT)
            return client.as_bearer(bearer_token, user_agent=USER_AGENT)

        def elected(make_controller: MakeController) -> Part:
            async def lead(over: asyncio.Event) -> None:
                await make_controller(writer).run(over)

            return partial(leadership.lead, lead)

        cluster = _Cluster(
            client=client, token=token, kubeconfig=options.kubeconfig, user_client=as_caller, elected=elected
        )
        await _serve(options, cluster, policy, serving_of(options, None), metrics, stop)


async def _serve(
    options: UpOptions,
    cluster: _Cluster,
    policy: PolicyFile,
    serving: Serving,
    metrics: ControllerMetrics,
    stop: asyncio.Event,
) -> None:
    """Run mirror, controller and Web API together with the parts of the cluster until `stop` is set."""
    client, kubelet = cluster.client, cluster.kubelet
    served = asyncio.Event()
    blobs = await open_blobs(options.blobs or (options.data / "blobs").as_uri(), field="--blobs")
    async with AsyncExitStack() as closing:
        mirror = await closing.enter_async_context(Mirror(client))
        database = options.history or f"sqlite://{quote(str(options.data / 'history.db'))}"
        history = await closing.enter_async_context(history_of(database, options.history_password_file))
        make_controller = partial(
            run_controller,
            mirror=mirror,
            view=ClusterView(mirror, policy),
            kept_logs=KeptLogs(blobs),
            code=CodeStore(blobs),
            history=history,
            outbox=HistoryOutbox(blobs),
            questions=Questions(blobs),
            watched=blobs,
            metrics=metrics,
        )
        if cluster.elected is None:
            own = OwnController(lambda stop: make_controller(client).run(stop))
            controller: Part = own.run
        else:
            own, controller = None, cluster.elected(make_controller)
        parts = [*cluster.parts, ("run controller", _start_after(served, controller))]
        working = asyncio.create_task(supervise(parts, stop))
        closing.push_async_callback(_cancel_task, working)
        await _wait_for(mirror.wait_synced(), working)
        node = OwnNode(mirror, kubelet) if kubelet is not None else None
        dependencies = ApiDependencies(
            client=client,
            mirror=mirror,
            policy=policy,
            networks=NetworksFile(options.networks or options.data / "networks.yaml", required=bool(options.networks)),
            user_client=cluster.user_client,
            namespace=options.namespace,
            kept_logs=KeptLogs(blobs),
            code=CodeStore(blobs, code_limits(policy)),
            blobs=blobs,
            history=history,
            leader=own,
            awaited=node.awaited if node is not None else lambda: "",
            health_of_image=node.health_of_image if node is not None and node.has_images else None,
            install_command="stop kaji up and start it again",
            sign_in=sign_in_of(options, authentication_of(options)),
            browser_access=browser_access_of(options),
            limits=WebLimits.parse(options.limit),
        )
        web = await _start_web_api(options, serving, dependencies)
        web.registry.register(metrics.registry)  # /metrics of the Web API also has the controller's metrics
        closing.push_async_callback(web.stop)
        if options.kubeconfig is None:
            url, authorities = serving.public_url(web.port), serving.authorities()
            if node is not None and node.has_own_addresses and not serving.is_open:
                await _wait_for(node.wait(ADDRESSES_PATIENCE_SECONDS), working)
                url = node.serve_pods(web) if not stop.is_set() else url
            completed = partial(
                on_own_cluster,
                image=OWN_IMAGE,
                server=url,
                server_ca=authorities,
                images=node is not None and node.has_images,
                own_command=node is None or node.has_images or options.nodes > 0,
                own_addresses=node is not None and node.has_own_addresses,
            )
            policy.complete(completed)
        served.set()
        if node is not None:
            await _wait_for(node.wait(), working)
        if kubelet is not None:
            await closing.enter_async_context(_own_telemetry(options, serving, web.port, kubelet))
        url, pid = serving.local_url(web.port), os.getpid()
        described = cluster_file.ClusterFile(url, cluster.token, pid, options.namespace, cluster.kubeconfig, serving.ca)
        with cluster_file.announced(options.data, described):
            say(how_to_use(options, serving, web.port, cluster.kubeconfig, policy.current().path, cluster.kubelet))
            await working


def _own_telemetry(
    options: UpOptions, serving: Serving, port: int, kubelet: Kubelet
) -> contextlib.AbstractAsyncContextManager[None]:
    """Sample the members on this machine, and report them to this process' Web API, while the context lasts."""
    trust = TrustedAuthorities("--host", serving.ca) if serving.ca is not None else None
    servers = Servers((serving.local_url(port),), options.data / "token", trust)
    return telemetry(kubelet.running_containers, servers, kubelet.settings.node_name)


async def _wait_for(wanted: Coroutine[Any, Any, Any], working: asyncio.Task[None]) -> None:
    """Wait for `wanted`, or raise the error with which `working` fails meanwhile."""
    waiting = asyncio.ensure_future(wanted)
    done, _ = await asyncio.wait({waiting, working}, return_when=asyncio.FIRST_COMPLETED)
    if waiting not in done:
        waiting.cancel()
    for task in done:
        await task


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _start_after(event: asyncio.Event, part: Part) -> Part:
    """Return the part, delayed until the event is set."""

    async def wait_and_work(stop: asyncio.Event) -> None:
        waiting = [asyncio.create_task(awaited.wait()) for awaited in (event, stop)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        await part(stop)

    return wait_and_work


async def _start_web_api(options: UpOptions, serving: Serving, dependencies: ApiDependencies) -> WebApi:
    """Start the Web API on the port of the options, else on the data folder's last port if it is free, else on any."""
    last = last_port(options.data, "web")
    for port in [options.port] if options.port else [last, 0] if last else [0]:
        app = web_app(dependencies)
        web = WebApi(app, host=options.host, port=port, certificate=serving.certificate, key=serving.key)
        try:
            await web.start()
        except Unavailable:
            await app.state.kajitori.close()
            if options.port or not port:
                raise
            continue
        remember_port(options.data, "web", web.port)
        return web
    raise AssertionError("the last port to try is 0")
