"""Policy for runs that make no progress: the section `stuck`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DurationAboveZero
from kajitori.core.policy.idle import Use
from kajitori.core.telemetry.stuck import Patience
from kajitori.errors import FieldError


class StuckTimes(Document):
    """How long runs of one type may be quiet. Quiet means that no rank prints, counts a step, or moves data."""

    floor_seconds: DurationAboveZero = Field(default=600, alias="floor")
    """A run without any work of its processors and GPUs is never suspected before this time."""
    working_floor_seconds: DurationAboveZero = Field(default=3600, alias="workingFloor")
    """The same for a run that keeps processors or GPUs busy, as a long evaluation does."""
    ceiling_seconds: DurationAboveZero = Field(default=6 * 3600, alias="ceiling")
    """Every run is suspected after this time, whatever its rhythm."""
    factor: float = Field(default=3.0, ge=1.0, le=100.0)
    """Between floor and ceiling, a run is suspected after its longest quiet time so far, times this factor."""

    @model_validator(mode="after")
    def _check_order(self) -> StuckTimes:
        if not self.floor_seconds <= self.working_floor_seconds <= self.ceiling_seconds:
            message = (
                f"floor ({self.floor_seconds} s), workingFloor ({self.working_floor_seconds} s) and ceiling "
                f"({self.ceiling_seconds} s) are not in ascending order"
            )
            raise FieldError(message, "give floor the shortest time and ceiling the longest")
        return self


class StuckRuns(Document):
    """Runs that make no progress. The leading controller judges all runs once a minute by the telemetry in history, and
    tells the owner. Sweeps are not judged, because their members are independent."""

    batch: StuckTimes | None = StuckTimes()
    """Gangs. null: only runs that set stuckAfter are judged."""
    notebook: StuckTimes | None = None
    """Batch runs that listen on ports, as notebooks do. null: they are not judged, because people sleep."""
    service: StuckTimes | None = None
    """Services. null: they are not judged, because one without requests may be quiet for days."""
    action: Literal["tell", "restart"] = Field(default="tell")
    """The action for stuck runs that set no onStuck. restart applies to runs that have restarts left."""

    def patience(self, use: Use, stuck_after_seconds: int | None) -> Patience | None:
        """Return the limits for a run of this use; None if it is not judged."""
        times = {Use.BATCH: self.batch, Use.NOTEBOOK: self.notebook, Use.SERVICE: self.service}[use]
        if stuck_after_seconds is not None:
            return Patience(exact_seconds=stuck_after_seconds)
        if times is None:
            return None
        return Patience(
            floor_seconds=times.floor_seconds,
            working_floor_seconds=times.working_floor_seconds,
            ceiling_seconds=times.ceiling_seconds,
            factor=times.factor,
        )
