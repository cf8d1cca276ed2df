"""`kaji up`: the whole platform in one process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
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
from kajitori.blobs.stores.blobs import Blobs
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
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.configuration.tls_files import TrustedAuthorities
from kajitori.configuration.web_limits import WebLimits
from kajitori.controllers.run_controller import RunController
from kajitori.core.formats.node_lists import brief, compress
from kajitori.core.kubernetes.texts import is_loopback
from kajitori.core.naming import names
from kajitori.core.policy.file import Policy, on_own_cluster, own_machine_policy
from kajitori.core.proxy.addresses import parse_origins
from kajitori.embedded.apiserver.certificates import ensure_token, issue_serving
from kajitori.embedded.cluster import OBJECTS, EmbeddedCluster, EmbeddedSettings, last_port, remember_port
from kajitori.embedded.kubelet.engine import detection as engines
from kajitori.embedded.kubelet.kubelet import Kubelet, require_pod_network
from kajitori.embedded.kubelet.machine.detection import try_mounts
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.embedded.simulator import SimulatedNodes
from kajitori.embedded.simulator.former import remove_former_nodes
from kajitori.embedded.store.integrity import named as named_object
from kajitori.embedded.store.repair import Repaired, repair
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.parts.leader import candidate
from kajitori.entrypoints.parts.own_cluster import ADDRESSES_PATIENCE_SECONDS, OwnController, OwnNode
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.entrypoints.parts.serving import Serving, serving_of
from kajitori.entrypoints.parts.stores import code_limits, history_of
from kajitori.entrypoints.parts.telemetry import telemetry
from kajitori.entrypoints.parts.web_api import USER_AGENT, ApiDependencies, web_app
from kajitori.entrypoints.process import Part, ensure_namespace, node_name, run_until_told, stop_signal, supervise
from kajitori.entrypoints.sim import LABEL_OF_UP, grace_seconds, heartbeat_seconds, pools_of
from kajitori.errors import Unavailable
from kajitori.history.store import History
from kajitori.install.parts.roles import people, teams
from kajitori.install.parts.teams import team_objects
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.monitoring.controller import LEADING, ControllerMetrics
from kajitori.openid.authentication_config import (
    AuthenticationConfiguration,
    parse_authentication,
)

OWN_IMAGE = "kajitori"
"""Name of the image of members' first step in `kaji up`. The machine's own Python runs the step, and not an image."""


MakeController = Callable[[KubeClient], RunController]
"""Makes a run controller that writes through a client."""


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
        authentication=_authentication_of(options),
    )
    async with AsyncExitStack() as closing:
        if options.repair:
            say(words_of(await asyncio.to_thread(repair, options.data / OBJECTS)))
        engine = await engines.find(options.engine) if options.kubelet else None
        require_pod_network(options.pod_network, engine)
        mounts = options.kubelet and (engine is not None or try_mounts(options.data / "probe").possible)
        policy = _policy_of(options, _own_machine(options.data, mounts, engine is not None))
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
        kubelet = _own_kubelet(options, cluster, client, engine) if options.kubelet else None
        if kubelet is not None:
            parts.append(("kubelet", kubelet.run))
        await _serve(
            options,
            client,
            policy,
            parts,
            stop,
            metrics,
            serving_of(options, cluster.certificates),
            token=cluster.token,
            kubeconfig=cluster.kubeconfig,
            kubelet=kubelet,
        )


async def _up_existing(options: UpOptions) -> None:
    """Run controller and Web API with the identity of the kubeconfig.

    Commands on this machine send a token from the data folder. For a caller with this token, the Web API acts with the
    kubeconfig's credentials. So certificates, credential plugins and tokens all work, and no credentials are copied.
    """
    stop = stop_signal()
    config = KubeConfig.discover(options.kubeconfig, options.context)
    policy = _policy_of(options, None)
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

        await _serve(
            options,
            client,
            policy,
            [],
            stop,
            metrics,
            serving_of(options, None),
            token=token,
            kubeconfig=options.kubeconfig,
            elected=elected,
            user_client=as_caller,
        )


async def _serve(
    options: UpOptions,
    client: KubeClient,
    policy: PolicyFile,
    parts: list[tuple[str, Part]],
    stop: asyncio.Event,
    metrics: ControllerMetrics,
    serving: Serving,
    *,
    token: str,
    kubeconfig: Path | None,
    elected: Callable[[MakeController], Part] | None = None,
    user_client: Callable[[str], KubeClient] | None = None,
    kubelet: Kubelet | None = None,
) -> None:
    """Run mirror, controller and Web API together with the parts of the cluster until `stop` is set.

    `elected` returns a part that creates and runs a controller whenever this process is elected leader. Without it,
    this process has the only controller, which starts at once."""
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
        if elected is None:
            own = OwnController(lambda stop: make_controller(client).run(stop))
            controller: Part = own.run
        else:
            own, controller = None, elected(make_controller)
        parts.append(("run controller", _start_after(served, controller)))
        working = asyncio.create_task(supervise(parts, stop))
        closing.push_async_callback(_cancel_task, working)
        await _wait_for(mirror.wait_synced(), working)
        node = OwnNode(mirror, kubelet) if kubelet is not None else None
        web = await _web_api(client, mirror, policy, options, serving, user_client, blobs, history, own, node)
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
                own_addresses=node is not None and node.has_own_addresses,
            )
            policy.complete(completed)
        served.set()
        if node is not None:
            await _wait_for(node.wait(), working)
        if kubelet is not None:
            await closing.enter_async_context(_own_telemetry(options, serving, web.port, kubelet))
        url, pid = serving.local_url(web.port), os.getpid()
        described = cluster_file.ClusterFile(url, token, pid, options.namespace, kubeconfig, serving.ca)
        with cluster_file.announced(options.data, described):
            _say_how_to_use(options, serving, web.port, kubeconfig, policy.current().path, kubelet)
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


async def _web_api(
    client: KubeClient,
    mirror: Mirror,
    policy: PolicyFile,
    options: UpOptions,
    serving: Serving,
    user_client: Callable[[str], KubeClient] | None,
    blobs: Blobs,
    history: History | None,
    leader: OwnController | None,
    node: OwnNode | None,
) -> WebApi:
    """Start the Web API on the port of the options, else on the data folder's last port if it is free, else on any."""
    named, own = options.networks, options.data / "networks.yaml"
    networks = NetworksFile(named or own, required=named is not None)
    last = last_port(options.data, "web")
    for port in [options.port] if options.port else [last, 0] if last else [0]:
        app = web_app(
            ApiDependencies(
                client=client,
                mirror=mirror,
                policy=policy,
                networks=networks,
                user_client=user_client,
                namespace=options.namespace,
                kept_logs=KeptLogs(blobs),
                code=CodeStore(blobs, code_limits(policy)),
                blobs=blobs,
                history=history,
                leader=leader,
                awaited=node.awaited if node is not None else lambda: "",
                health_of_image=node.health_of_image if node is not None and node.has_images else None,
                install_command="stop kaji up and start it again",
                sign_in=_sign_in(options, _authentication_of(options)),
                browser_access=_browser_access(options),
                limits=WebLimits.parse(options.limit),
            )
        )
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


def _say_how_to_use(
    options: UpOptions,
    serving: Serving,
    port: int,
    kubeconfig: Path | None,
    policy: Path | None,
    kubelet: Kubelet | None,
) -> None:
    own_machine = options.kubeconfig is None
    lines = [
        f"Kajitori is up. Web API: {serving.public_url(port)}",
        "  kaji run python:3.12 python3 -c 'print(6 * 7)'     run something (in another terminal)",
        "  kaji ps -a        kaji gpus        kaji nodes        what there is",
        "  kaji open         the same in a browser",
    ]
    if kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={kubeconfig}     for kubectl and every other client")
    if serving.is_open:
        trust = f" KAJI_CA={serving.ca}" if serving.ca is not None else " KAJI_INSECURE_HTTP=1"
        lines.append("  on other machines, with copies of the files named here:")
        lines.append(f"  KAJI_SERVER={serving.public_url(port)}{trust} KAJI_TOKEN=$(cat {options.data / 'token'})")
    if serving.is_open and serving.ca is None:
        lines.append("Tokens cross the network in plain text, as --insecure-http says.")
    if policy is not None:
        instead = ", which replaces the default for one machine" if own_machine else ""
        lines.append(f"The policy is {policy}{instead}.")
    elif own_machine:
        lines.append("The policy is the default for one machine; to change it: kaji policy show > POLICY, edit it, and")
        lines.append(f"move it to {_own_policy_file(options)}.")
    else:
        lines.append(f"The policy is the strict default; to replace it, write {_own_policy_file(options)}.")
    if kubelet is not None:
        lines += filter(None, [engines.described(options.engine, kubelet.engine)])
        if options.pod_network == "namespace" and (address := kubelet.context.network.gateway()[0]):
            lines.append(f"Pods have addresses of their own; to them, this machine is {address}.")
        lines.append(
            "Ctrl-C stops the servers. Members that run on this machine go on; the next `kaji up` takes them over."
        )
    say("\n".join(lines))


def words_of(repaired: Repaired) -> str:
    """Return a report of a repair of the cluster's objects."""
    if repaired.kept is None:
        return f"Nothing to repair: all {repaired.objects} objects of the cluster are as they were written."
    lines = [f"{repaired.damage[:1].upper()}{repaired.damage[1:]}.", f"Objects that could be read: {repaired.objects}."]
    if repaired.lost:
        lines.append(f"Lost: {len(repaired.lost)}.")
        lines += [f"  {named_object(*key)}" for key in repaired.lost]
    elif not repaired.may_lack_more:
        lines.append("Nothing is lost.")
    if repaired.may_lack_more:
        lines.append("More may be lost, since the list of all objects is damaged, too.")
    lines.append(f"The damaged files are kept in {repaired.kept}; delete them if nothing is missing.")
    return "\n".join(lines)


def _policy_of(options: UpOptions, without_file: Policy | None) -> PolicyFile:
    """Return the policy of the named file, which must exist; else of the data folder's file, which may be missing."""
    if options.policy is not None:
        return PolicyFile(options.policy, required=True)
    return PolicyFile(_own_policy_file(options), without_file=without_file)


def _authentication_of(options: UpOptions) -> AuthenticationConfiguration | None:
    if options.authentication_config is None:
        return None
    return parse_authentication(options.authentication_config.read_bytes())


def _sign_in(options: UpOptions, accepted: AuthenticationConfiguration | None) -> SignIn | None:
    """Return how people sign in: as the options say, else at the first provider that the embedded API server
    accepts."""
    found = options.sign_in()
    if found is None and accepted is not None and accepted.jwt:
        issuer = accepted.jwt[0].issuer
        found = SignIn(issuer.url, issuer.audiences[0], options.sign_in_scopes, issuer.certificate_authority)
    return found


LOCAL_PROGRAMS = "http://*.localhost"
"""Origins of programs for browsers on this machine, at the port of the Web API."""


def _browser_access(options: UpOptions) -> BrowserAccess:
    """Return the settings for sessions of browsers. The key lies in the data folder, so that sessions survive a
    restart.

    Browsers resolve names below localhost to this machine, so each program gets an origin there by default.
    """
    found = options.browser_access()
    if found.programs is None and is_loopback(options.host):
        found = replace(found, programs=parse_origins(LOCAL_PROGRAMS))
    if found.cookie_secret:
        return found
    return replace(found, cookie_secret=ensure_token(options.data / "sign-in.key").encode())


def _own_policy_file(options: UpOptions) -> Path:
    return options.data / "policy.yaml"


def _own_machine(data: Path, mounts: bool, images: bool) -> Policy:
    folders = (str(Path.cwd()), tempfile.gettempdir(), str(data))
    return own_machine_policy(
        str(Path.home()), mounts=mounts, images=images, checkpoint_root=str(data / "checkpoints"), folders=folders
    )


def _own_kubelet(
    options: UpOptions, cluster: EmbeddedCluster, client: KubeClient, engine: engines.Engine | None
) -> Kubelet:
    name = node_name(socket.gethostname())
    root = options.data / "node"
    certificate, key = issue_serving(cluster.certificates, root / "pki", name, (options.host,))
    server = ServerSettings(address=options.host, certificate=certificate, key=key, client_ca=cluster.certificates.ca)
    # With an engine, the user of a container is often the image's, and not the user of `kaji up`.
    open_below = options.data if engine is not None else None
    settings = KubeletSettings(
        node_name=name,
        root_dir=root,
        address=options.host,
        server=server,
        open_below=open_below,
        pod_network=options.pod_network,
    )
    return Kubelet(client, settings, adapter=RunPods(), engine=engine)
