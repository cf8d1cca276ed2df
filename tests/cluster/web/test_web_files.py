"""Files of a checkpoint folder through the Web API: a real process in the reader's Pod, on each kind of API server."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from tests.harness.cluster import Cluster, this_machine
from tests.harness.web_api import web_api

from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase

WRITES = """
cd "$KAJI_CHECKPOINT_DIR" && mkdir step-100 && printf 0123456789 > step-100/model.pt
ln -s step-100 latest && ln -s /etc/passwd evil && touch 重み.bin
"""


async def test_an_ended_runs_checkpoint_is_listed_and_downloaded(cluster: Cluster) -> None:
    """The folder opens with the first request; the reader is no member, and goes once nobody reads."""
    async with this_machine(cluster) as here, web_api(cluster, for_members=True) as web:
        cluster.start_controller()
        spec: dict[str, Any] = {
            "image": "python:3",
            "command": ["sh", "-c", WRITES],
            "checkpoint": {"path": "/ckpt"},
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "nodeSelector": here,
        }
        made = await web.http.post("/v1/runs", json={"name": "bert", "spec": spec})
        assert made.status_code == 201, made.text
        await cluster.reaches("bert", Phase.SUCCEEDED)
        path = f"/v1/runs/{cluster.namespace}/bert/files"

        answer = await web.http.get(path, params={"wait": 30})
        assert answer.status_code == 200, answer.text
        shown = [(item["name"], item["kind"], item["readable"]) for item in answer.json()["items"]]
        assert shown == [
            ("step-100", "folder", True),
            ("evil", "link", False),
            ("latest", "folder", True),
            ("重み.bin", "file", True),
        ]
        pages: list[tuple[str, int]] = []
        position: str | None = ""
        for _ in range(4):
            page = (await web.http.get(path, params={"limit": 1, "continue": position})).json()
            pages.append((page["items"][0]["name"], page["count"]))
            position = page["continue"]
        assert (pages, position) == ([(name, 4) for name, _, _ in shown], None)
        part = await web.http.get(
            f"{path}/content", params={"path": "/ckpt/latest/model.pt"}, headers={"Range": "bytes=2-4"}
        )
        assert (part.status_code, part.text, part.headers["content-range"]) == (206, "234", "bytes 2-4/10")
        whole = await web.http.get(
            f"{path}/content",
            params={"path": "latest/model.pt"},
            headers={"Range": "bytes=2-4", "If-Range": '"an older file"'},
        )
        assert (whole.status_code, whole.text, whole.headers["etag"]) == (200, "0123456789", part.headers["etag"])
        assert whole.headers["content-disposition"].startswith("attachment")
        beyond = await web.http.get(
            f"{path}/content", params={"path": "latest/model.pt"}, headers={"Range": "bytes=10-"}
        )
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")
        packed = await web.http.get(f"{path}/archive", params={"path": "step-100"})
        with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
            assert archive.getnames() == ["step-100", "step-100/model.pt"]
        for wrong, code in {"evil": 422, "../x": 422, "/etc/passwd": 422, "nope": 404, "latest": 422}.items():
            refused = await web.http.get(f"{path}/content", params={"path": wrong})
            assert refused.status_code == code, refused.text

        run = cluster.mirror.runs[cluster.namespace, "bert"]
        assert (cluster.namespace, "bert-files") in cluster.mirror.pods
        assert "bert-files" not in {pod.metadata.name for pod in cluster.mirror.pods_of_run(run)}
        long_ago = {"metadata": {"annotations": {names.ANNOTATION_FILES_READ: "2026-01-01T00:00:00Z"}}}
        await cluster.client.patch(RUNS, "bert", long_ago, cluster.namespace)
        key = cluster.namespace, "bert"

        def is_forgotten() -> bool:
            has_reader = (cluster.namespace, "bert-files") in cluster.mirror.pods
            return not has_reader and names.ANNOTATION_FILES_READ not in cluster.mirror.runs[key].metadata.annotations

        await cluster.until(is_forgotten, "the reader is gone")
