"""Logs of long-running processes: text for people, or one JSON document per line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Protocol

from kajitori.errors import InvalidInput, KajitoriError

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every log record. Others were passed with `extra=` and become fields of the document."""

log = logging.getLogger("kajitori")


class LogOptions(Protocol):
    """The log options that every process has."""

    @property
    def log_level(self) -> str: ...

    @property
    def log_format(self) -> str: ...


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON: `time` (UTC, RFC 3339), `level`, `logger`, `message`, `exception` if there is
    one, and the fields passed with `extra=`, for example `run`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        document: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        document |= {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def begin_logging(options: LogOptions) -> None:
    """Log to stderr as the options say. Libraries log only warnings and errors, unless the level is debug."""
    handler = logging.StreamHandler(sys.stderr)
    if options.log_format == "json":
        handler.setFormatter(JsonFormatter())
        logging.captureWarnings(True)
    else:
        handler.setFormatter(logging.Formatter(TEXT))
    level = logging.getLevelNamesMapping()[options.log_level.upper()]
    logging.basicConfig(level=level if level <= logging.DEBUG else max(level, logging.WARNING), handlers=[handler])
    log.setLevel(level)


def say(*lines: str) -> None:
    """Print lines for the user who started this process, at any log level."""
    if not is_json():
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
        return
    record = log.makeRecord(log.name, logging.INFO, __file__, 0, "\n".join(lines), (), None)
    for handler in logging.getLogger().handlers:
        handler.handle(record)


def is_json() -> bool:
    """Whether this process logs JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def log_end(error: KajitoriError) -> int:
    """Log the error that ends this process, with its hint, and return the exit code."""
    faults = error.faults if isinstance(error, InvalidInput) else ()
    extra = {"code": error.code, "hint": error.hint, "exit_code": error.exit_code}
    log.error("%s", error.message, extra=extra | ({"faults": [str(fault) for fault in faults]} if faults else {}))
    return error.exit_code
