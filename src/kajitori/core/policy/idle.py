"""Policy for GPUs that a run holds and does not use: the section `idleGpus`, as types."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DurationAboveZero, Memory
from kajitori.core.telemetry.idle import Limits, Patience
from kajitori.errors import FieldError

HOUR = 3600


class Use(StrEnum):
    """Purpose of a run, which decides how long its GPUs may be idle."""

    BATCH = "batch"
    NOTEBOOK = "notebook"
    SERVICE = "service"


class IdleTimes(Document):
    """How long the GPUs of a run may be idle before its owner is asked."""

    after_seconds: DurationAboveZero | None = Field(default=2 * HOUR, alias="after")
    """Time without any work: GPUs, processors, disks and network. null: the owner is never asked."""
    working_after_seconds: DurationAboveZero | None = Field(default=12 * HOUR, alias="workingAfter")
    """Time in which GPUs are idle while processors, disks or the network work, for example to prepare data. Not below
    `after`. null: the owner is not asked as long as anything works."""

    @model_validator(mode="after")
    def _work_excuses(self) -> IdleTimes:
        after, working = self.after_seconds, self.working_after_seconds
        if after is not None and working is not None and working < after and self._names_both:
            message = f"workingAfter ({working} s) is below after ({after} s): a run that works would be asked first"
            raise FieldError(message, "give workingAfter the longer time, or null")
        return self

    @property
    def _names_both(self) -> bool:
        return "working_after_seconds" in self.model_fields_set

    @property
    def patience(self) -> Patience:
        """The times as they are judged. If only `after` is given and it is longer, workingAfter is as long."""
        after, working = self.after_seconds, self.working_after_seconds
        if after is None and not self._names_both:
            return Patience(None, None)
        return Patience(after, max(working, after) if after is not None and working is not None else working)


class NotebookTimes(IdleTimes):
    working_after_seconds: DurationAboveZero | None = Field(default=8 * HOUR, alias="workingAfter")
    """As in batch."""


class ServiceTimes(IdleTimes):
    after_seconds: DurationAboveZero | None = Field(default=24 * HOUR, alias="after")
    """As in batch."""
    working_after_seconds: DurationAboveZero | None = Field(default=72 * HOUR, alias="workingAfter")
    """As in batch."""


class IdlePark(Document):
    """Parking of runs if their owner does not answer, as `kaji park` does it. Nothing is deleted."""

    after_seconds: DurationAboveZero = Field(alias="after")
    """Time between the question to the owner and the parking."""
    warning_seconds: DurationAboveZero = Field(default=HOUR, alias="warning")
    """How long before it is parked the owner is warned."""

    @model_validator(mode="after")
    def _warned_after_the_question(self) -> IdlePark:
        if self.warning_seconds >= self.after_seconds:
            message = f"warning ({self.warning_seconds} s) is not below after ({self.after_seconds} s)"
            raise FieldError(message, "the warning comes after the question: give it a shorter time")
        return self


class IdleGpus(Document):
    """GPUs that a run holds and does not use. Its owner is asked whether the run is to be kept or parked; nothing is
    ever deleted. Needs an agent on the nodes that reads GPUs."""

    enabled: bool = True
    """Whether idle GPUs are looked for."""
    utilisation: float = Field(default=5.0, gt=0, le=100)
    """A GPU is idle below this percentage of time in which a kernel runs, in every minute."""
    multiprocessors: float = Field(default=5.0, gt=0, le=100)
    """The same for the share of its multiprocessors that had work, if the GPU (Hopper and later) or DCGM reports it."""
    memory_traffic: float = Field(default=5.0, gt=0, le=100)
    """The same for the percentage of time in which its memory is read or written."""
    cores: float = Field(default=0.5, gt=0, le=1e6)
    """A run works if a member uses this many cores or more."""
    bytes_per_second: Memory = Field(default=2**20)
    """A run works if a member reads, writes, receives or sends this many bytes per second or more."""
    batch: IdleTimes = IdleTimes()
    """Runs of type batch."""
    notebook: NotebookTimes = NotebookTimes()
    """Runs of type batch with ports, such as a Jupyter server."""
    service: ServiceTimes = ServiceTimes()
    """Runs of type service."""
    longest_keep_seconds: DurationAboveZero = Field(default=7 * 24 * HOUR, alias="longestKeep")
    """The longest time for which an owner may answer that the run is kept (`kaji keep`)."""
    park: IdlePark | None = None
    """Opt-in: a run is parked if its owner does not answer and all of its GPUs stay idle. null: never."""

    def patience_of(self, use: Use) -> Patience:
        """Return the times for runs of this use."""
        times: IdleTimes = getattr(self, use.value)
        return times.patience

    @property
    def limits(self) -> Limits:
        """The limits of use."""
        return Limits(
            utilisation=self.utilisation,
            multiprocessors=self.multiprocessors,
            memory_traffic=self.memory_traffic,
            cores=self.cores,
            bytes_per_second=self.bytes_per_second,
        )


def use_of(run_type: str, *, has_ports: bool) -> Use:
    """Return the use of a run: a batch run that listens on ports is a notebook, or something like it."""
    if run_type == "service":
        return Use.SERVICE
    return Use.NOTEBOOK if has_ports else Use.BATCH
