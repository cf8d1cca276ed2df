"""A command that also accepts options of other tools. It creates them only if the user typed one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kajitori.client.submit.borrowed_options import BORROWED, DOCKER, SLURM

_SAID = "kajitori.borrowed_options"


class BorrowingCommand(click.Command):
    """A command that adds these options only after one of them was typed, so that they cost other calls nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            if error.option_name not in BORROWED:
                raise
        ctx.meta[_SAID] = {}
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            near = [name for name in error.possibilities or () if name not in BORROWED]
            raise click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found = super().get_params(ctx)
        return [*found, *_borrowed_parameters()] if _SAID in ctx.meta else found


def borrowed_words() -> dict[str, str]:
    """Return the options of other tools that were typed, each with its values."""
    return dict(click.get_current_context().meta.get(_SAID, {}))


def _borrowed_parameters() -> Iterator[click.Option]:
    for option in (*DOCKER, *SLURM):
        for name in option.names:
            kind: dict[str, Any] = {"is_flag": True} if option.is_flag else {"multiple": True}
            yield click.Option(
                [name, f"borrowed_{name.strip('-').replace('-', '_')}"],
                hidden=True,
                expose_value=False,
                callback=_note_down,
                **kind,
            )


def _note_down(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        ctx.meta[_SAID][parameter.opts[0]] = "" if value is True else " ".join(value)
