"""Policy for notebooks: the policy file's section `notebooks`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero, Image, Memory, MountPath


class Notebooks(Document):
    """Runs of type notebook: JupyterLab for one person, reached through the Web API."""

    image: Image = "quay.io/jupyter/minimal-notebook"
    """Image of `kaji notebook` without an image. An image without JupyterLab works too if it has Python and can reach a
    package index: JupyterLab is then installed into the notebook's folder, once."""
    time_limit_seconds: DurationAboveZero | None = Field(default=7 * 86400, alias="timeLimit")
    """Time limit of notebooks that set none; never above ceilings.run.timeLimit. null: defaults.timeLimit applies."""
    notice_seconds: Duration = Field(default=600, alias="notice")
    """Time between the message to the owner and the end of the program if a notebook or an interactive run
    (`kaji run -it`) is preempted."""
    idle_kernels_after_seconds: DurationAboveZero | None = Field(default=None, alias="idleKernelsAfter")
    """JupyterLab shuts kernels down that computed nothing for this long, so that their GPU memory is free. null: never;
    the section idleGpus applies to notebooks in any case."""
    path: MountPath = "/notebook"
    """Path at which the notebook's folder is mounted if the run has no checkpoint of its own. The folder is kept like a
    checkpoint: it outlives Pods, attempts and the run."""
    size_bytes: Memory = Field(default=20 * 2**30, alias="size")
    """Size of that folder, if the policy stores checkpoints in claims."""
    home: Literal["folder", "unchanged"] | None = None
    """Home folder of the program. folder: the notebook's folder, so that settings and packages of `pip install --user`
    are kept. unchanged: that of the image. Left out: folder, or unchanged for the processes of `kaji up` without a
    container engine, since their user has a home already."""
