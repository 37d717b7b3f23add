"""Log lines: a constant message plus fields, as text for people or JSON for machines.

Levels: *error* a flow failed and somebody must act; *warning* something is worse than
intended and we go on; *info* a change that an operator would want to know of; *debug*
the rest. One line per change, never one per poll.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class TextFormatter(logging.Formatter):
    """``time LEVEL logger: message key=value …``."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one line, then the traceback where there is one."""
        fields = "".join(f" {key}={_plain(value)}" for key, value in _fields(record).items())
        name = record.name.removeprefix("deviceplugin.")
        line = f"{_time(record)} {record.levelname:<7} {name}: {record.getMessage()}{fields}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one line."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("deviceplugin."),
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "\n=') else text


def _is_news(record: logging.LogRecord) -> bool:
    # watchdog calls it an error when a watch is ended while an event is on its way.
    return not (record.name.startswith("watchdog.") and "thread is inactive" in str(record.msg))


def _in_plain_words(record: logging.LogRecord) -> bool:
    """Reword gRPC's error about bytes that are no message: it is the peer's, not ours.

    Its other tracebacks, as of an RPC of ours that failed, stay.
    """
    if record.name == "grpc._common" and "deserializing" in str(record.msg):
        record.msg, record.exc_info = "another process sent bytes that are no message", None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return logging.getLogger().isEnabledFor(logging.WARNING)
    return True


def configure(style: str = "text", level: str = "info", stream: TextIO = sys.stderr) -> None:
    """Send all log lines of the process to ``stream``; ``style`` is "text" or "json"."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    handler.addFilter(_is_news)
    handler.addFilter(_in_plain_words)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Its debug lines are a dump of each inotify event, and hide ours.
    logging.getLogger("watchdog").setLevel(logging.WARNING)
