"""The composition root: wires one process of each kind out of its parts, and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from kajitori import clusterfile
from kajitori import demo as story
from kajitori.api.app import create_app
from kajitori.api.context import ApiDependencies
from kajitori.api.server import ApiServer as WebApi
from kajitori.controllers.leadership import Leadership
from kajitori.controllers.runs import RunController
from kajitori.core.policy import Policy, own_machine_policy, with_first_step
from kajitori.core.quantity import parse_cpu_millis, parse_spec_memory_bytes
from kajitori.errors import AlreadyExists, Conflict, Forbidden, KajitoriError, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView
from kajitori.kube.config import KubeConfig
from kajitori.kube.install import install
from kajitori.kube.mirror import Mirror
from kajitori.kube.resources import NAMESPACES
from kajitori.local.apiserver.certificates import ensure_token, issue_serving
from kajitori.local.embedded import EmbeddedCluster, EmbeddedSettings, last_port, remember_port
from kajitori.local.kubelet.kubelet import Kubelet
from kajitori.local.kubelet.machine import try_mounts
from kajitori.local.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.local.sim import SimSettings, SimulatedNodes
from kajitori.policyfile import PolicyFile
from kajitori.settings import (
    LEASE_NAMESPACE,
    ControllerOptions,
    DemoOptions,
    NodeOptions,
    ServerOptions,
    SimOptions,
    UpOptions,
)
from kajitori.store.blobs import Blobs, open_blobs
from kajitori.store.code import CodeLimits, CodeStore
from kajitori.store.logs import KeptLogs

log = logging.getLogger("kajitori")

GPU_TYPE_LABEL = "kajitori.dev/gpu-type"
OWN_IMAGE = "kajitori"
"""What `kaji up` calls the image of members' first step. Its own nodes run no images."""

RESTART_PAUSE_SECONDS = 1.0
RESTART_PAUSE_MAX_SECONDS = 30.0

Part = Callable[[asyncio.Event], Awaitable[None]]
"""Works until the event is set."""


# ---------------------------------------------------------------------------------------------------- kaji up


def up(options: UpOptions) -> int:
    """The whole platform in one process, on an embedded cluster or on an existing one."""
    work = _up_embedded(options) if options.kubeconfig is None else _up_existing(options)
    return _run(work, options.log_level)


async def _up_embedded(options: UpOptions) -> None:
    stop = _stop_signal()
    settings = EmbeddedSettings(
        options.data, options.host, options.kube_port, in_memory=options.in_memory, namespace=options.namespace
    )
    async with AsyncExitStack() as closing:
        closing.enter_context(clusterfile.held(options.data))
        mounts = options.kubelet and try_mounts(options.data / "probe").possible
        policy = _policy_of(options, _own_machine(options.data, mounts))
        cluster = await closing.enter_async_context(EmbeddedCluster(settings))
        client = await closing.enter_async_context(KubeClient(cluster.client_config()))
        await install(client)
        for namespace in (options.namespace, LEASE_NAMESPACE):
            await _ensure_namespace(client, namespace)

        async def controllers(stop: asyncio.Event) -> None:
            await cluster.run_controllers(client, stop)

        parts: list[tuple[str, Part]] = [("embedded cluster", controllers)]
        serving = issue_serving(cluster.certificates, options.data / "sim", "sim", (options.host,))
        pools = (SimulatedNodes(client, pool, serving=serving) for pool in _pools(options))
        parts += [("simulated nodes", pool.run) for pool in pools]
        if options.kubelet:
            kubelet = _own_kubelet(options, cluster, client)
            parts.append(("kubelet", kubelet.run))
        await _serve(options, client, policy, parts, stop, token=cluster.token, kubeconfig=cluster.kubeconfig)


async def _up_existing(options: UpOptions) -> None:
    """Controller and Web API with the kubeconfig's own identity, however it proves who it is.

    The commands beside it carry a token of this folder's own: the Web API acts for whoever shows it as the kubeconfig
    says. So certificates, credential plugins and tokens all work, and no credentials of the cluster are copied.
    """
    stop = _stop_signal()
    config = KubeConfig.discover(options.kubeconfig, options.context)
    with clusterfile.held(options.data):
        policy = _policy_of(options, None)
        token = ensure_token(options.data / "token")
        leadership = await _candidate(config, LEASE_NAMESPACE, "")
        async with KubeClient(config) as client, KubeClient(config, write_permit=leadership.permit) as writer:

            def as_caller(shown: str) -> KubeClient:
                own = secrets.compare_digest(shown.encode(), token.encode())
                return KubeClient(config if own else config.with_token(shown), user_agent="kajitori-api")

            def run_controller(mirror: Mirror, blobs: Blobs) -> Part:
                view = ClusterView(mirror, policy)
                controller = partial(
                    RunController, writer, mirror, view, kept_logs=KeptLogs(blobs), code=CodeStore(blobs)
                )
                return lambda stop: leadership.lead(lambda over: controller().run(over), stop)

            await _serve(
                options,
                client,
                policy,
                [],
                stop,
                token=token,
                kubeconfig=options.kubeconfig,
                run_controller=run_controller,
                user_client=as_caller,
            )


async def _serve(
    options: UpOptions,
    client: KubeClient,
    policy: PolicyFile,
    parts: list[tuple[str, Part]],
    stop: asyncio.Event,
    *,
    token: str,
    kubeconfig: Path | None,
    run_controller: Callable[[Mirror, Blobs], Part] | None = None,
    user_client: Callable[[str], KubeClient] | None = None,
) -> None:
    """Mirror, controller and Web API around the parts of the cluster, until `stop`."""
    served = asyncio.Event()
    blobs = await open_blobs(options.blobs or (options.data / "blobs").as_uri(), field="--blobs")
    async with AsyncExitStack() as closing:
        mirror = await closing.enter_async_context(Mirror(client))
        if run_controller is None:
            view = ClusterView(mirror, policy)
            kept_logs, code = KeptLogs(blobs), CodeStore(blobs)
            controller: Part = RunController(client, mirror, view, kept_logs=kept_logs, code=code).run
        else:
            controller = run_controller(mirror, blobs)
        parts.append(("run controller", _after(served, controller)))
        working = asyncio.create_task(_supervise(parts, stop))
        closing.push_async_callback(_ended, working)
        await _until(mirror.wait_synced(), working)
        web = await _web_api(client, mirror, policy, options, user_client, blobs)
        closing.push_async_callback(web.stop)
        if options.kubeconfig is None:
            policy.complete(partial(with_first_step, image=OWN_IMAGE, server=web.url))
        served.set()
        described = clusterfile.ClusterFile(
            url=web.url, token=token, kubeconfig=kubeconfig, pid=os.getpid(), namespace=options.namespace
        )
        with clusterfile.announced(options.data, described):
            _say_how_to_use(options, web.url, kubeconfig, policy.current().path)
            await working


def _after(event: asyncio.Event, part: Part) -> Part:
    """The part, which begins when the event is set."""

    async def wait_and_work(stop: asyncio.Event) -> None:
        waiting = [asyncio.create_task(each.wait()) for each in (event, stop)]
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
    user_client: Callable[[str], KubeClient] | None,
    blobs: Blobs,
) -> WebApi:
    """Serves on the port that is asked for; else on the last one of this folder, if it is free; else on any."""
    last = last_port(options.data, "web")
    for port in [options.port] if options.port else [last, 0] if last else [0]:
        app = create_app(
            ApiDependencies(
                client=client,
                mirror=mirror,
                policy=policy,
                user_client=user_client,
                namespace=options.namespace,
                kept_logs=KeptLogs(blobs),
                code=CodeStore(blobs, _code_limits(policy)),
            )
        )
        web = WebApi(app, host=options.host, port=port)
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


def _say_how_to_use(options: UpOptions, url: str, kubeconfig: Path | None, policy: Path | None) -> None:
    own_machine = options.kubeconfig is None
    lines = [
        f"Kajitori is up. Web API: {url}",
        "  kaji run python:3.12 -- python3 -c 'print(6 * 7)'     run something (in another terminal)",
        "  kaji ps -a        kaji gpus        kaji nodes        what there is",
    ]
    if kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={kubeconfig}     for kubectl and every other client")
    if policy is not None:
        instead = ", instead of the policy for one's own machine" if own_machine else ""
        lines.append(f"The policy is {policy}{instead}.")
    elif own_machine:
        lines.append(f"The policy is that for one's own machine; a file {_own_policy_file(options)} takes its place.")
    else:
        lines.append(f"The policy is the strict default; a file {_own_policy_file(options)} takes its place.")
    if options.kubelet and own_machine:
        lines.append(
            "Ctrl-C stops the servers. Members that run on this machine go on; the next `kaji up` takes them over."
        )
    _say("\n".join(lines))


def _policy_of(options: UpOptions, without_file: Policy | None) -> PolicyFile:
    """The policy of the named file, which has to be there; else that of the data folder's own file, if there is one."""
    if options.policy is not None:
        return PolicyFile(options.policy, required=True)
    return PolicyFile(_own_policy_file(options), without_file=without_file)


def _own_policy_file(options: UpOptions) -> Path:
    return options.data / "policy.yaml"


def _own_machine(data: Path, mounts: bool) -> Policy:
    folders = (str(Path.cwd()), tempfile.gettempdir(), str(data))
    return own_machine_policy(
        str(Path.home()), mounts=mounts, checkpoint_root=str(data / "checkpoints"), folders=folders
    )


def _own_kubelet(options: UpOptions, cluster: EmbeddedCluster, client: KubeClient) -> Kubelet:
    name = _node_name(socket.gethostname())
    root = options.data / "node"
    certificate, key = issue_serving(cluster.certificates, root / "pki", name, (options.host,))
    server = ServerSettings(address=options.host, certificate=certificate, key=key, client_ca=cluster.certificates.ca)
    return Kubelet(client, KubeletSettings(node_name=name, root_dir=root, address=options.host, server=server))


def _pools(options: UpOptions | SimOptions) -> list[SimSettings]:
    """Pools of simulated nodes: one a GPU type, as even as it goes."""
    types: Sequence[str] = options.gpu_type or (("h100",) if options.gpus else ("",))
    pools = []
    for index, gpu_type in enumerate(types):
        count = options.nodes // len(types) + (index < options.nodes % len(types))
        if not count:
            continue
        pool = SimSettings(
            count=count,
            prefix=f"{_node_name(gpu_type)}-" if gpu_type else "cpu-",
            digits=len(str(count)),
            gpus=options.gpus,
            labels={GPU_TYPE_LABEL: gpu_type} if gpu_type else {},
            pod_network=10 + index,
        )
        if isinstance(options, SimOptions):
            pool = replace(
                pool,
                prefix=options.prefix if len(types) == 1 else f"{options.prefix}{gpu_type}-",
                digits=5,
                first=options.first,
                cpu=options.cpus,
                memory=options.memory,
                max_pods=options.max_pods,
                heartbeat_seconds=options.heartbeat_seconds,
                remove_not_ready_taint=options.remove_not_ready_taint,
                delete_nodes_at_stop=options.delete_nodes_at_stop,
            )
        pools.append(pool)
    return pools


def demo(options: DemoOptions) -> int:
    """A short story on a cluster of its own."""
    return story.demo(options)


# ---------------------------------------------------------------------------------------------------- parts alone


def server(options: ServerOptions) -> int:
    """The Web API alone, for an existing cluster."""

    async def work() -> None:
        stop = _stop_signal()
        async with _existing(options.kubeconfig, options.context) as client:
            await install(client)
            policy = PolicyFile(options.policy, required=True)
            blobs = await _blobs(options.blobs)
            async with Mirror(client) as mirror:
                await mirror.wait_synced()
                app = create_app(
                    ApiDependencies(
                        client=client,
                        mirror=mirror,
                        policy=policy,
                        namespace=options.namespace,
                        controller_namespace=options.controller_namespace,
                        kept_logs=KeptLogs(blobs) if blobs is not None else None,
                        code=CodeStore(blobs, _code_limits(policy)) if blobs is not None else None,
                    )
                )
                web = WebApi(
                    app, host=options.host, port=options.port, certificate=options.certificate, key=options.key
                )
                async with web:
                    _say(f"Kajitori's Web API: {web.url}")
                    await stop.wait()

    return _run(work(), options.log_level)


def controller(options: ControllerOptions) -> int:
    """The run controller alone, for an existing cluster. Several may run; one leads."""

    async def work() -> None:
        stop = _stop_signal()
        config = KubeConfig.discover(options.kubeconfig, options.context)
        policy = PolicyFile(options.policy, required=True)
        blobs = await _blobs(options.blobs)
        kept_logs = KeptLogs(blobs) if blobs is not None else None
        code = CodeStore(blobs) if blobs is not None else None
        leadership = await _candidate(config, options.namespace, options.identity)
        async with KubeClient(config, write_permit=leadership.permit) as client, Mirror(client) as mirror:
            await mirror.wait_synced()
            view = ClusterView(mirror, policy)
            _say("Kajitori's controller is at work.")

            async def lead(over: asyncio.Event) -> None:
                running = RunController(
                    client, mirror, view, namespace=options.namespace, kept_logs=kept_logs, code=code
                )
                await running.run(over)

            await leadership.lead(lead, stop)

    return _run(work(), options.log_level)


def _code_limits(policy: PolicyFile) -> Callable[[], CodeLimits]:
    def in_force() -> CodeLimits:
        code = policy.current().policy.code
        return CodeLimits(code.archive_bytes, code.namespace_bytes)

    return in_force


async def _blobs(url: str | None) -> Blobs | None:
    """The store of code and kept logs, where one is named."""
    return await open_blobs(url, field="--blobs") if url is not None else None


def node(options: NodeOptions) -> int:
    """This machine as a node of an existing cluster."""

    async def work() -> None:
        stop = _stop_signal()
        async with _existing(options.kubeconfig, options.context) as client:
            settings = _kubelet_settings(options)
            kubelet = Kubelet(client, settings)
            _say(f"This machine is node {settings.node_name}.")
            await kubelet.run(stop)

    return _run(work(), options.log_level)


def sim(options: SimOptions) -> int:
    """Simulated nodes in an existing cluster."""

    async def work() -> None:
        stop = _stop_signal()
        async with _existing(options.kubeconfig, options.context) as client:
            pools = [("simulated nodes", SimulatedNodes(client, pool).run) for pool in _pools(options)]
            _say(f"{options.nodes} simulated nodes.")
            await _supervise(pools, stop)

    return _run(work(), options.log_level)


def _kubelet_settings(options: NodeOptions) -> KubeletSettings:
    labels = dict(label.split("=", 1) for label in options.labels)
    if options.gpu_type:
        labels[GPU_TYPE_LABEL] = options.gpu_type
    taints = []
    for text in options.taints:
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        taints.append({"key": key, "value": value, "effect": effect})
    return KubeletSettings(
        node_name=options.name or _node_name(socket.gethostname()),
        root_dir=options.data,
        labels=labels,
        taints=tuple(taints),
        cpu_millis=parse_cpu_millis(options.cpus) if options.cpus else None,
        memory_bytes=parse_spec_memory_bytes(options.memory) if options.memory else None,
        gpus=options.gpus,
        max_pods=options.max_pods,
        address=options.address,
        server=ServerSettings(port=options.port, client_ca=options.client_ca),
        pod_network=options.pod_network,
    )


# ---------------------------------------------------------------------------------------------------- shared


@asynccontextmanager
async def _existing(kubeconfig: Path | None, context: str | None) -> AsyncIterator[KubeClient]:
    async with KubeClient(KubeConfig.discover(kubeconfig, context)) as client:
        yield client


async def _candidate(config: KubeConfig, namespace: str, identity: str) -> Leadership:
    """Who may lead, where everything is in place that a controller needs."""
    async with KubeClient(config) as client:
        await install(client)
        with contextlib.suppress(Forbidden):  # then it has to be there; if not, the Lease says so
            await _ensure_namespace(client, namespace)
    return Leadership(config, namespace, identity or _identity())


async def _ensure_namespace(client: KubeClient, name: str) -> None:
    if name == "default":
        return
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, body)


async def _supervise(parts: Sequence[tuple[str, Part]], stop: asyncio.Event) -> None:
    """Runs the parts until `stop`. One that fails is started again after a pause; what it says for good ends all."""
    async with asyncio.TaskGroup() as group:
        for name, part in parts:
            group.create_task(_kept_alive(name, part, stop), name=name)


async def _kept_alive(name: str, part: Part, stop: asyncio.Event) -> None:
    pause = RESTART_PAUSE_SECONDS
    while not stop.is_set():
        try:
            await part(stop)
            return
        except Conflict:
            raise  # somebody else does this work already: starting again would not help
        except Exception as error:
            if isinstance(error, KajitoriError):
                log.error("the %s stopped: %s; started again in %.0f s", name, error, pause)
            else:
                log.exception("the %s failed, which is a bug; started again in %.0f s", name, pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(pause * 2, RESTART_PAUSE_MAX_SECONDS)


async def _until(wanted: Coroutine[Any, Any, Any], working: asyncio.Task[None]) -> None:
    """Waits for something, or raises what the workers died of meanwhile."""
    waiting = asyncio.ensure_future(wanted)
    done, _ = await asyncio.wait({waiting, working}, return_when=asyncio.FIRST_COMPLETED)
    if waiting not in done:
        waiting.cancel()
    for task in done:
        await task


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _run(work: Coroutine[Any, Any, None], log_level: str) -> int:
    """Runs one process's work. Errors for users come out as themselves, never inside a group."""
    logging.basicConfig(
        level=log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        uvloop.run(work)
    except BaseExceptionGroup as group:
        known, _ = group.split(KajitoriError)
        if known is not None:
            first: BaseException = known
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from group
        raise
    return 0


def _identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _say(*lines: str) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def _node_name(text: str) -> str:
    """A node's name out of a host name or a GPU type."""
    kept = "".join(char if char.isalnum() or char in "-." else "-" for char in text.lower()).strip("-.")
    return kept or f"node-{getpass.getuser()}"
