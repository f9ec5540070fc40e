"""One JSON object a line on stderr. What users send never stands in it, not even in the message of an exception."""

import json
import logging
import sys
import time
from types import TracebackType
from typing import Any

logger = logging.getLogger("knn_ue.serving")


class JsonLines(logging.Formatter):
    """Time, level, event, and what was given as `extra={"fields": {...}}`; of an exception its kind and place."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line |= {"error": record.exc_info[0].__name__, "at": _places(record.exc_info[2])}
        return json.dumps(line, ensure_ascii=False)


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Write one line."""
    logger.log(level, event, extra={"fields": fields}, exc_info=error)


def start_logging(level: int = logging.INFO) -> None:
    """Send our lines, and what uvicorn says, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("knn_ue.serving", "uvicorn"):
        target = logging.getLogger(name)
        target.handlers = [handler]
        target.propagate = False
        target.setLevel(level)
    # uvicorn's own lines on requests hold the query string; ours name the route.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def _places(trace: TracebackType | None) -> list[str]:
    """Return where an exception came from, without its message, which may hold the text of a user."""
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places[-12:]
