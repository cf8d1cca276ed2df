"""Prices of the resources that runs use: the policy file's section `prices`, as types."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.usage.sums import Prices

Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class UsagePrices(Document):
    """Prices with which `kaji usage` shows a cost. Nothing depends on them otherwise."""

    currency: str = Field(default="", max_length=16)
    """Shown behind each cost, for example EUR."""
    gpu_hour: dict[str, Price] = Field(default_factory=dict, max_length=100)
    """Price of one GPU for one hour, by GPU type. `*` is the price of all types that are not named."""
    core_hour: Price = 0.0
    """Price of one core for one hour."""
    memory_gib_hour: Price = 0.0
    """Price of one GiB of memory for one hour."""

    @property
    def prices(self) -> Prices:
        """The prices as sums of usage need them."""
        gpu = {("" if kind == "*" else kind): price for kind, price in self.gpu_hour.items()}
        return Prices(gpu=gpu, core=self.core_hour, gib=self.memory_gib_hour)
