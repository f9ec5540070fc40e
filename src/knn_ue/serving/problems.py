"""What goes wrong -> an answer with a status, a code for programs and one sentence for people."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from knn_ue.errors import InvalidInputError, StorageError, StoreUnreachableError

TOO_MANY = "too_many"  # what pydantic calls a list or object that is too long
FACTS = "knn_ue_facts"  # of a request, in its scope
_SHOWN = 3  # of all that is wrong with a body
_LARGEST = 1e15  # of a number that is shown
_SENTENCES = {
    400: "the body is not JSON that can be read: send one JSON object in UTF-8",
    404: "there is nothing at this address: see /docs for what there is",
    405: "this address does not answer that method: see /docs for the one it does",
}


class Error(BaseModel):
    """What went wrong: a sentence for people, a code for programs."""

    error: str
    code: str


class ProblemError(Exception):
    """A request that cannot be answered: `status`, `code`, and a message that names the rule and the way out."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return it as an HTTP response."""
        headers = self.headers | ({} if self.retry_after is None else {"Retry-After": str(self.retry_after)})
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        body = {"error": self.message, "code": self.code}
        return Response(json.dumps(body), self.status, headers, media_type="application/json")


def busy(code: str, message: str, *, retry_after: int = 1) -> ProblemError:
    """Return a 503 with Retry-After."""
    return ProblemError(503, code, f"{message}: try again in {retry_after} s", retry_after=retry_after)


def problem_of(error: Exception) -> ProblemError | None:
    """Return what an error of the library, or of reading the request, means to a client; None if it is a bug."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError):
        return _unreadable(error)
    if isinstance(error, HTTPException):
        sentence = _SENTENCES.get(error.status_code, str(error.detail))
        return ProblemError(error.status_code, f"http_{error.status_code}", sentence, headers=error.headers)
    if isinstance(error, StoreUnreachableError):
        return ProblemError(503, "store_unreachable", str(error), retry_after=5)
    if isinstance(error, StorageError):
        return ProblemError(503, "storage", str(error), retry_after=30)
    if isinstance(error, InvalidInputError):
        return ProblemError(422, "invalid_input", str(error))
    return None


def add_handlers(app: FastAPI) -> None:
    """Let every error the app raises on purpose become a sentence."""

    def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        assert problem is not None
        note(request.scope, code=problem.code)
        return problem.response()

    for kind in (
        ProblemError,
        RequestValidationError,
        HTTPException,
        InvalidInputError,
        StorageError,
        StoreUnreachableError,
    ):
        app.add_exception_handler(kind, answer)


def note(scope: Scope, **facts: Any) -> None:
    """Let the log and the metrics know more about a request; never what its texts are."""
    scope.setdefault(FACTS, {}).update(facts)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says about these statuses and those that every address has."""
    return {status: {"model": Error, "description": _MEANINGS[status]} for status in (*statuses, 400, 401, 403, 503)}


_MEANINGS = {
    400: "The body is not JSON.",
    401: "The bearer token is missing or wrong.",
    403: "The request comes from another site, or for a host this server does not answer to; or changes are off.",
    404: "No such example.",
    408: "The body came too slowly.",
    409: "The folder or method does not allow it.",
    413: "Too many inputs, characters or bytes.",
    415: "The body must be application/json.",
    422: "An input breaks a rule.",
    503: "Too busy, shutting down, the disk refuses a write or the store is gone; Retry-After has the seconds to wait.",
}


def _unreadable(error: RequestValidationError) -> ProblemError:
    found = error.errors()
    if any(part["type"] == "json_invalid" for part in found):
        return ProblemError(422, "invalid_json", f"{_SENTENCES[400]} ({found[0]['ctx']['error']})")
    if found[0]["type"] == TOO_MANY:
        return ProblemError(413, "too_many_items", f"{_place(found[0]['loc'])} {found[0]['msg']}: send it in parts")
    shown = [f"{_place(part['loc'])} {_rule(part)}{_number(part.get('input'))}" for part in found[:_SHOWN]]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ProblemError(422, "invalid_body", f"{'; '.join(shown)}{more}: see /docs for what may be sent")


def _rule(part: dict[str, Any]) -> str:
    """Return what is wrong in our words; pydantic's speak of its own types."""
    if part["type"] in ("model_type", "model_attributes_type", "dict_type"):
        inside = any(place in ("inputs", "examples") for place in part["loc"])
        return "must be text or an object with the keys of the task" if inside else "must be a JSON object"
    found: str = _RULES.get(part["type"]) or part["msg"].replace("Input should", "must").replace("Value error, ", "")
    return found[:1].lower() + found[1:]


def _number(value: object) -> str:
    """Return a number that breaks a rule; anything else stays out: it is the user's text, large or not even JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
        return f", got {value}"
    return ""


_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode, without half a surrogate pair",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def _place(location: tuple[Any, ...]) -> str:
    """Return a location as JavaScript would write it.

    >>> _place(("body", "inputs", "#many", 3, "#pair", "premise"))
    'inputs[3].premise'
    """
    inside = [part for part in location[1:] if isinstance(part, int) or not part.startswith("#")]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inside)
    return text.lstrip(".") or "the body"
