"""A run controller alone in a process, to be killed: `python -m tests.helpers.controller_process KUBECONFIG POLICY`."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from kajitori.controllers.runs import RunController
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror import Mirror
from kajitori.policyfile import PolicyFile


async def main(kubeconfig: Path, policy: Path) -> None:
    """Works until it is killed."""
    async with KubeClient(KubeConfig.from_file(kubeconfig)) as client, Mirror(client) as mirror:
        await RunController(client, mirror, ClusterView(mirror, PolicyFile(policy))).run(asyncio.Event())


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
