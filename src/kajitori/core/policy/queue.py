"""What the operators decide about the queue: the policy file's section `queue`, as types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero
from kajitori.core.policy.formula import Formula, FormulaError
from kajitori.errors import FieldError

OrderWord = Literal["length", "fifo", "share", "formula"]

DAY_SECONDS = 86400.0

LIKELY = 0.8
"""Default share of a run's expected length that must fit before a reservation for the run to be backfilled. Most runs
end before their expected end, which is the longest of three earlier runs or a limit. For reservations of overdue gangs
the whole expected length must fit, or such a reservation could be delayed without end. Chosen together with the
constants of `OrderRules`, see docs/concepts/queue.md."""


@dataclass(frozen=True, slots=True)
class OrderRules:
    """Parameters of the queue's order. The defaults were chosen on the first year of a batch system's log; see
    docs/concepts/queue.md."""

    order: OrderWord = "length"
    """As in `QueuePolicy.order`."""
    formula: Formula | None = None
    """The score of a run, if the order is `formula`."""
    exponent: float = 3.0
    """Exponent of the waiting time, which is measured in the run's expected length. A higher value gives it more weight
    than size and share."""
    half_life_seconds: float = 7 * DAY_SECONDS
    """Past usage of this age counts half."""
    fair_share: float = 0.1
    """Share of the cluster, between 0 and 1. A user or team that used this much recently gets half the score of one
    that used nothing."""
    bound_seconds: float = 2 * DAY_SECONDS
    """Waiting time after which the run that waited longest goes first; the backlog adds to it."""
    backlog_factor: float = 0.5
    """Times the backlog, the time that the cluster needs for the whole queue; the product is added to the bound."""
    most_backlog_seconds: float = 7 * DAY_SECONDS
    """Upper limit of what the backlog adds to the bound."""


def _formula(text: str) -> str:
    try:
        Formula(text)
    except FormulaError as error:
        raise FieldError(error.message, error.hint) from None
    return text


FormulaText = Annotated[str, AfterValidator(_formula)]


class QueuePolicy(Document):
    """Who is looked at first when nodes are free, and who may pass whom. A run's priority comes before all of it."""

    order: OrderWord = "length"
    """length: by the time waited in the run's own expected length, to the power of `exponent`, times the part of the
    cluster that it asks for, less for those who had much lately. fifo: first come, first served. share: who had least
    lately. formula: as `formula` says."""
    formula: FormulaText | None = None
    """A score of your own; the highest is first. Numbers, + - * / **, min(a, b), max(a, b), sqrt, log, exp and abs,
    over `waited` and `expected` (seconds), `size` (the part of the cluster that the run asks for), `userShare` and
    `teamShare` (what the user and the namespace had lately), which are between 0 and 1. The default order's is
    `(waited / expected) ** 3 * size / ((1 + userShare / 0.1) * (1 + teamShare / 0.1))`."""
    exponent: float = Field(default=3.0, ge=0, le=20, allow_inf_nan=False)
    """Of the time waited, in order length: the higher, the more it counts beside size and share."""
    half_life_seconds: DurationAboveZero = Field(default=int(7 * DAY_SECONDS), alias="halfLife")
    """What somebody had so long ago counts half."""
    fair_share: float = Field(default=0.1, gt=0, le=1000, allow_inf_nan=False)
    """Who had this part of the cluster lately counts half as much as who had nothing; user and team both count. A large
    number, such as 1000: shares do not count."""
    bound_seconds: Duration = Field(default=int(2 * DAY_SECONDS), alias="bound")
    """Who has waited longest of all comes first, whatever his score, once that is longer than this; in every order but
    fifo, which needs no such thing."""
    backlog: float = Field(default=0.5, ge=0, le=1000, allow_inf_nan=False)
    """The bound is longer by so much of the time that the cluster needs for all that waits: where it is asked for more
    than it has, for good, it would turn into first come, first served."""
    most_backlog_seconds: Duration = Field(default=int(7 * DAY_SECONDS), alias="backlogAtMost")
    """By no more than this, since limits say more than runs take. The higher it is, the shorter are waits on the
    average where the cluster is asked for more than it has, for good, and the longer are those of a few."""
    reservations: bool = True
    """The first run that does not fit has nodes kept for it, and others pass it only if that is not expected to delay
    it. If not, whatever fits starts, and large gangs wait for as long as small ones come."""
    likely: float = Field(default=LIKELY, gt=0, le=1)
    """A run may pass if so much of its expected length ends before the reservation begins: most runs end sooner than
    expected. Nobody passes an overdue run (see bound) so."""

    @model_validator(mode="after")
    def _order_and_formula(self) -> QueuePolicy:
        if self.order == "formula" and self.formula is None:
            raise FieldError("order formula needs a formula", "such as formula: (waited / expected) ** 3 * size")
        if self.order != "formula" and self.formula is not None:
            raise FieldError(f"a formula does not count in order {self.order}", "write order: formula, or leave it out")
        return self

    @cached_property
    def rules(self) -> OrderRules:
        """The same as the order takes it."""
        return OrderRules(
            order=self.order,
            formula=Formula(self.formula) if self.formula is not None else None,
            exponent=self.exponent,
            half_life_seconds=float(self.half_life_seconds),
            fair_share=self.fair_share,
            bound_seconds=float(self.bound_seconds),
            backlog_factor=self.backlog,
            most_backlog_seconds=float(self.most_backlog_seconds),
        )
