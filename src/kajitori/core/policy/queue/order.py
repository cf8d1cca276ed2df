"""Policy for the queue: the policy file's section `queue`, as types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero
from kajitori.core.policy.queue.formula import Formula, FormulaError
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
    """The order of the queue, reservations and backfill. A run with a higher priority always goes before one with a
    lower priority."""

    order: OrderWord = "length"
    """length: by a score, the waiting time divided by the run's expected length, to the power of `exponent`, times the
    share of the cluster that the run asks for, divided by factors that grow with the recent usage of its user and team.
    fifo: first come, first served. share: users and teams with the least recent usage first. formula: by the score of
    `formula`."""
    formula: FormulaText | None = None
    """A formula for the score of a run, for order formula. The run with the highest score goes first. It consists of
    numbers, + - * / **, min(a, b), max(a, b), sqrt, log, exp and abs, over `waited` and `expected` (seconds), `size`
    (share of the cluster that the run asks for), `userShare` and `teamShare` (recent usage of the user and of the
    namespace). The last three are between 0 and 1. The formula of the default order is
    `(waited / expected) ** 3 * size / ((1 + userShare / 0.1) * (1 + teamShare / 0.1))`."""
    exponent: float = Field(default=3.0, ge=0, le=20, allow_inf_nan=False)
    """For order length: exponent of the waiting time. A higher value gives waiting time more weight than size and
    usage."""
    half_life_seconds: DurationAboveZero = Field(default=int(7 * DAY_SECONDS), alias="halfLife")
    """Past usage of this age counts half."""
    fair_share: float = Field(default=0.1, gt=0, le=1000, allow_inf_nan=False)
    """For order length: a user who recently used this share of the cluster gets half the score of one who used nothing.
    The same applies to teams. With a large number, for example 1000, usage does not matter."""
    bound_seconds: Duration = Field(default=int(2 * DAY_SECONDS), alias="bound")
    """Among runs of one priority, the run with the longest wait is first once it has waited longer than this, whatever
    its score. Order fifo ignores this field."""
    backlog: float = Field(default=0.5, ge=0, le=1000, allow_inf_nan=False)
    """Extends the bound by this factor times the time that the cluster needs for the whole queue. Without it, a cluster
    that is permanently overloaded would work first come, first served."""
    most_backlog_seconds: Duration = Field(default=int(7 * DAY_SECONDS), alias="backlogAtMost")
    """Upper limit of that extension, since time limits are longer than runs take. On a permanently overloaded cluster,
    a higher value shortens the average wait and lengthens the waits of a few runs."""
    reservations: bool = True
    """Whether nodes are reserved for the first run that does not fit. Other runs are then started before it only if
    they are not expected to delay it (backfill). If not, every run that fits starts, and large gangs wait until no
    small runs are left."""
    likely: float = Field(default=LIKELY, gt=0, le=1)
    """A run is backfilled if at least this share of its expected length fits before the reservation begins, since most
    runs end sooner than expected. Before the reservation of an overdue run (see bound), all of it has to fit."""

    @model_validator(mode="after")
    def _order_and_formula(self) -> QueuePolicy:
        if self.order == "formula" and self.formula is None:
            hint = "for example formula: (waited / expected) ** 3 * size"
            raise FieldError("order formula needs the field formula", hint)
        if self.order != "formula" and self.formula is not None:
            hint = "write order: formula, or leave formula out"
            raise FieldError(f"order {self.order} does not use the field formula", hint)
        return self

    @cached_property
    def rules(self) -> OrderRules:
        """Parameters of the order, as `core.queue.ordering` takes them."""
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
