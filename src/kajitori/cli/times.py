"""Times in options."""

from __future__ import annotations

from datetime import datetime, timedelta

from kajitori.errors import InvalidInput

_DAY = timedelta(days=1)


def moment_option(option: str, text: str | None, now: datetime) -> str | None:
    """Return the time that an option names, as the Web API takes it: a duration before now such as `30d`, or a time.

    Raises InvalidInput for any other text.
    """
    from kajitori.core.formats.quantities import parse_duration_seconds
    from kajitori.core.formats.times import format_time, parse_time

    if not text:
        return None
    try:
        return format_time(now - timedelta(seconds=parse_duration_seconds(text)))
    except (ValueError, OverflowError):
        pass
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput.one(
            option,
            f"{text!r:.80} is not a time",
            value=text,
            hint="write a duration or a time: 30d, or 2026-11-21T10:00:00Z",
        )
    return format_time(moment)


def later_option(option: str, text: str, now: datetime) -> str:
    """Return the later time that an option names, as the Web API takes it: the next time that a clock here shows 18:00,
    a duration from now such as `2d`, or a time.

    Raises InvalidInput for any other text.
    """
    from datetime import time

    from kajitori.core.formats.quantities import parse_duration_seconds
    from kajitori.core.formats.times import format_time, parse_time

    here = now.astimezone()
    if len(text) == len("18:00"):  # 18:00 is a time of the day here; as a duration it would be 18 minutes
        try:
            clock = time.fromisoformat(text)
        except ValueError:
            clock = None
        if clock is not None:
            found = datetime.combine(here.date(), clock).astimezone()
            return format_time(found if found > now else datetime.combine(here.date() + _DAY, clock).astimezone())
    try:
        return format_time(now + timedelta(seconds=parse_duration_seconds(text)))
    except (ValueError, OverflowError):
        pass
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidInput.one(
            option, f"{text!r:.80} is not a time", value=text, hint="write 18:00, 2d, or 2026-11-25T09:00:00Z"
        )
    return format_time(moment.astimezone())  # without a zone: the time here
