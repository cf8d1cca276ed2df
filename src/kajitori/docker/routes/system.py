"""The engine itself: ping, version, info, disk use."""

from __future__ import annotations

import asyncio
import platform as machine
from typing import Any

from aiohttp import web

from kajitori.core.spec.reasons import Phase
from kajitori.docker.engine import engine_of, json_answer
from kajitori.docker.routes.images import known_images
from kajitori.docker.translation.inspection import summary

LEAST_API, MOST_API = "1.44", "1.51"
"""The versions of the Engine API that are spoken."""

routes = web.RouteTableDef()


@routes.get("/_ping")
async def ping(request: web.Request) -> web.Response:
    headers = {"Cache-Control": "no-cache, no-store, must-revalidate", "Pragma": "no-cache"}
    return web.Response(text="OK", headers=headers)


@routes.get("/version")
async def version(request: web.Request) -> web.Response:
    server = await engine_of(request).platform.get("/v1/version")
    architecture = machine.machine()
    details = {
        "ApiVersion": MOST_API,
        "MinAPIVersion": LEAST_API,
        "Arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(architecture, architecture),
        "Os": "linux",
        "KernelVersion": "",
        "GitCommit": "",
        "GoVersion": "",
        "BuildTime": "",
        "Experimental": "false",
    }
    components = [
        {"Name": "Engine", "Version": server["version"], "Details": details},
        {"Name": "Kubernetes", "Version": server["kubernetes"], "Details": {}},
    ]
    document: dict[str, Any] = {
        "Platform": {"Name": "Kajitori"},
        "Version": server["version"],
        "Components": components,
        **details,
        "Experimental": False,
    }
    return json_answer(document)


@routes.get("/info")
async def info(request: web.Request) -> web.Response:
    engine = engine_of(request)
    platform = engine.platform
    server, nodes, containers, images = await asyncio.gather(
        platform.get("/v1/version"), _nodes(request), platform.containers(), known_images(engine)
    )
    running = sum(one.phase is Phase.RUNNING for one in containers)
    return json_answer(
        {
            "ID": platform.target.url,
            "Name": platform.target.url,
            "ServerVersion": server["version"],
            "Containers": len(containers),
            "ContainersRunning": running,
            "ContainersPaused": 0,
            "ContainersStopped": len(containers) - running,
            "Images": len(images),
            "Driver": "kajitori",
            "DriverStatus": [
                ["Server", platform.target.url],
                ["Namespace", platform.namespace or "the server's own"],
                ["User", server.get("user", "")],
                ["Nodes", str(len(nodes))],
            ],
            "Plugins": {"Volume": ["kajitori"], "Network": ["bridge"], "Authorization": None, "Log": ["json-file"]},
            "MemoryLimit": True,
            "SwapLimit": False,
            "CpuCfsPeriod": False,
            "CpuCfsQuota": True,
            "OomKillDisable": False,
            "NCPU": sum(node["cpuMillis"]["total"] for node in nodes) // 1000,
            "MemTotal": sum(node["memoryBytes"]["total"] for node in nodes),
            "OperatingSystem": f"Kajitori on Kubernetes {server['kubernetes']}",
            "OSType": "linux",
            "Architecture": machine.machine(),
            "KernelVersion": "",
            "LoggingDriver": "json-file",
            "CgroupDriver": "none",
            "CgroupVersion": "2",
            "Runtimes": {"runc": {"path": "runc"}},
            "DefaultRuntime": "runc",
            "Swarm": {"NodeID": "", "NodeAddr": "", "LocalNodeState": "inactive", "ControlAvailable": False},
            "IndexServerAddress": "",
            "RegistryConfig": {"IndexConfigs": {}, "InsecureRegistryCIDRs": [], "Mirrors": []},
            "SecurityOptions": [],
            "Labels": [],
            "Warnings": None,
            "LiveRestoreEnabled": True,
            "ExperimentalBuild": False,
        }
    )


async def _nodes(request: web.Request) -> list[dict[str, Any]]:
    params: dict[str, Any] = {"limit": 500}
    nodes: list[dict[str, Any]] = []
    while True:
        page = await engine_of(request).platform.get("/v1/nodes", params)
        nodes += page["items"]
        if not page.get("continue"):
            return nodes
        params["continue"] = page["continue"]


@routes.get("/system/df")
async def disk_use(request: web.Request) -> web.Response:
    engine = engine_of(request)
    now = engine.now()
    containers = [summary(one, now) | {"SizeRw": 0, "SizeRootFs": 0} for one in await engine.platform.containers()]
    images = [one.summary() for one in await known_images(engine)]
    return json_answer(
        {
            "LayersSize": sum(image["Size"] for image in images),
            "Images": images,
            "Containers": containers,
            "Volumes": [],
            "BuildCache": [],
            "BuilderSize": 0,
        }
    )
