"""The addresses of the API: each reads, asks the service, and writes JSON."""

import asyncio
import hashlib
import json
import re
from collections.abc import Coroutine
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from pydantic import BeforeValidator

from knn_ue.pipeline.domains import asked_domains, scale_of
from knn_ue.reasons import familiarity_sentence
from knn_ue.report.html_page import style_sheet
from knn_ue.serving.http import inputs
from knn_ue.serving.http.guard import ClientGoneError
from knn_ue.serving.http.schemas import (
    AdaptRequest,
    AdaptResponse,
    AddedResponse,
    Alive,
    ChangedResponse,
    ExamplesRequest,
    ExplainRequest,
    ExplainResponse,
    ForgotResponse,
    Info,
    PredictRequest,
    PredictResponse,
    Ready,
    RemovedResponse,
    SampleRequest,
    SampleResponse,
)
from knn_ue.serving.problems import ProblemError, busy, documented, note
from knn_ue.serving.work.answering import Done, Kind, Work
from knn_ue.serving.work.curve import RiskCurve
from knn_ue.serving.work.drift import DriftReport
from knn_ue.serving.work.metrics import CONTENT_TYPE
from knn_ue.serving.work.service import Service
from knn_ue.serving.work.state import neighbor_note
from knn_ue.serving.work.writer import Asked, Learning, threshold_said
from knn_ue.tasks import TASKS

Result = TypeVar("Result")

_MAX_EXPLAINED = 16  # inputs: each carries all its reasons, and in tagging for every word
_MAX_ID = 2**62
_ID = re.compile(r"0|[1-9][0-9]{0,18}")
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def _asked(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=128,
            pattern="^[!-~]+$",
            description="A name of your own for this request: whoever repeats it gets the first answer, for a day.",
        ),
    ] = None,
) -> Asked | None:
    if key is None:
        return None
    told = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return Asked(key=key, digest=hashlib.sha256(told).hexdigest())


Repeatable = Annotated[Asked | None, Depends(_asked)]


def api_routes(service: Service) -> APIRouter:
    """Return the routes of the API."""
    router = APIRouter()
    _add_questions(router, service)
    _add_changes(router, service)
    _add_facts(router, service)
    return router


def page_routes() -> APIRouter:
    """Return the routes of the two pages and of the files they are made of, all read once."""
    router = APIRouter(include_in_schema=False)
    found = {
        entry.name: entry.read_bytes()
        for entry in files("knn_ue.serving").joinpath("page").iterdir()
        if _kind(entry.name) is not None
    }
    found["report.css"] = style_sheet().encode()  # the look of the HTML report
    head = found.pop("head.html")
    for name in ("explorer.html", "docs.html"):
        found[name] = head + found[name]

    @router.get("/")
    async def explorer() -> Response:
        return _file("explorer.html", found)

    @router.get("/docs")
    async def docs() -> Response:
        return _file("docs.html", found)

    @router.get("/page/{name}")
    async def part(name: str) -> Response:
        if name not in found:
            raise ProblemError(404, "unknown_file", "there is no such file: open / for the explorer")
        return _file(name, found)

    return router


def _add_questions(router: APIRouter, service: Service) -> None:
    @router.post("/predict", responses=documented(408, 413, 415, 422) | {200: {"model": PredictResponse}})
    async def predict(request: Request, body: PredictRequest) -> Response:
        """Answer one input or many: label, calibrated score, raw score, and the nearest training examples."""
        done = await _ask(service, request, body, "answer")
        return _json({"answers": [answer.to_dict() for answer in done.answers], "generation": done.served.generation})

    @router.post("/explain", responses=documented(408, 413, 415, 422) | {200: {"model": ExplainResponse}})
    async def explain(request: Request, body: ExplainRequest) -> Response:
        """Answer, and say why: the weight and its two terms, all neighbors, and a map of the neighborhood."""
        done = await _ask(service, request, body, "explain")
        pairs = zip(done.answers, done.why, strict=True)
        judges = done.served.pipe.encoder.gives_answers
        found = [
            {
                "answer": answer.to_dict(),
                "why": [row.to_dict() for row in why],
                "familiarity_in_words": familiarity_sentence(
                    answer.familiarity,
                    answer.unfamiliar,
                    scale_of(done.served.pipe.fitted_, answer.domain),
                    given=judges,
                )
                or None,
            }
            for answer, why in pairs
        ]
        note = neighbor_note(done.served)
        return _json({"explanations": found, "note": note, "generation": done.served.generation})


def _add_changes(router: APIRouter, service: Service) -> None:
    @router.post(
        "/examples",
        status_code=201,
        responses=documented(408, 409, 413, 415, 422) | {201: {"model": AddedResponse}},
    )
    async def add_examples(request: Request, body: ExamplesRequest, asked: Repeatable) -> Response:
        """Store labeled examples, all or none: on disk before this returns, and seen by every later request.

        On a store that several servers share, the others see them at once if its consistency is strong.
        """
        _check_writable(service)
        examples = inputs.read_labeled(service.served, body.examples, service.options)
        note(request.scope, n_items=len(examples))
        if body.random_sample and body.labels_of is None:
            raise ProblemError(
                422, "no_domain", "random_sample counts the examples as labels of a domain: name it in labels_of"
            )
        learning = Learning(store=True, domain=body.labels_of, random_sample=body.random_sample, add=True)
        return _json(await _unless_gone(request, service.learn(examples, learning, asked)), status=201)

    @router.post("/adapt", responses=documented(408, 413, 415, 422) | {200: {"model": AdaptResponse}})
    async def adapt(request: Request, body: AdaptRequest, asked: Repeatable) -> Response:
        """Recalibrate for a domain with a few labeled examples of it; on disk before this returns."""
        _check_writable(service)
        examples = inputs.read_labeled(service.served, body.examples, service.options)
        note(request.scope, n_items=len(examples))
        learning = Learning(domain=body.domain, random_sample=body.random_sample, add=body.add, force=body.force)
        return _json(await _unless_gone(request, service.learn(examples, learning, asked)))

    @router.delete("/domains/{name}", responses=documented(404, 422) | {200: {"model": ForgotResponse}})
    async def forget_domain(name: str, asked: Repeatable) -> Response:
        """Remove a domain and its labels; undoes /adapt."""
        _check_writable(service)
        return _json(await service.keeper.forget_domain(name, asked))

    @router.post("/sample", responses=documented(409, 422) | {200: {"model": SampleResponse}})
    async def sample(body: SampleRequest) -> Response:
        """Return random inputs to label, from the file of --ask or from the last inputs with --keep-recent."""
        if service.pool.source == "none":
            raise ProblemError(409, "no_pool", "there is nothing to label: start with --ask or --keep-recent")
        record = TASKS[service.served.pipe.task]
        drawn = [
            dict(zip(record.input_keys, [list(x.parts)] if record.is_tagging else x.parts, strict=True))
            | dict(x.given or {})
            for x in service.pool.draw(body.n)
        ]
        return _json({"inputs": drawn, "source": service.pool.source, "n_pool": len(service.pool)})

    @router.delete("/examples/{id}", responses=documented(404, 409, 422) | {200: {"model": RemovedResponse}})
    async def remove_example(
        example: Annotated[int, BeforeValidator(_plain_digits), Path(alias="id", ge=0, le=_MAX_ID)],
        asked: Repeatable,
    ) -> Response:
        """Remove a stored example, by the id that answers show; on disk before this returns."""
        _check_writable(service)
        return _json(await service.remove(example, asked))

    @router.post("/refit", responses=documented(409, 422) | {200: {"model": ChangedResponse}})
    async def refit(asked: Repeatable) -> Response:
        """Refit the parameters, the threshold and the drift percentiles with the examples stored now."""
        _check_writable(service)
        return _json(await service.keeper.refit(asked))

    @router.post("/reload", responses=documented(422) | {200: {"model": ChangedResponse}})
    async def reload() -> Response:
        """Reload the folder if it changed; the old one answers until the new one is ready."""
        served, changed = await service.keeper.reload()
        sentence = "the folder was read again" if changed else "the folder has not changed"
        return _json(threshold_said(changed, served.generation, served.pipe.fitted_, sentence))


def _plain_digits(number: object) -> object:
    """Refuse what Python would read as a number too, such as 1_1 or 1.0: it is another example than was meant."""
    if not isinstance(number, str) or not _ID.fullmatch(number):
        raise ValueError("an id is written in the digits 0 to 9, without leading zeros")
    return number


def _add_facts(router: APIRouter, service: Service) -> None:
    @router.get("/health", responses={200: {"model": Alive}})
    async def health() -> Response:
        """Say that the process is alive; answers while the model is busy."""
        return _json({"status": "alive"})

    @router.get("/ready", responses={503: documented()[503], 200: {"model": Ready}})
    async def ready() -> Response:
        """Say whether requests are welcome now."""
        reason = service.why_not_ready()
        if reason is not None:
            raise busy("not_ready", reason)
        return _json({"status": "ready", "generation": service.served.generation})

    @router.get("/info", responses=documented() | {200: {"model": Info}})
    async def info() -> Response:
        """Describe the model, the method, the datastore and the limits of a request."""
        return _json(service.facts())

    @router.get("/validation", responses=documented() | {200: {"model": RiskCurve}})
    async def validation() -> Response:
        """Return coverage and risk on the validation rows for each threshold."""
        return _json(asdict(await service.curve()))

    @router.get("/drift", responses=documented() | {200: {"model": DriftReport}})
    async def drift() -> Response:
        """Compare the last inputs with the validation rows: are they moving away from the training data?"""
        return _json(asdict(service.drift_report()))

    @router.get("/metrics", response_class=Response, responses=documented() | {200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return everything that is counted, for Prometheus."""
        return Response(service.metrics.page(service.drift_report()), headers={"Content-Type": CONTENT_TYPE})


async def _ask(service: Service, request: Request, body: PredictRequest | ExplainRequest, kind: Kind) -> Done:
    examples = inputs.read_inputs(service.served, body.inputs, service.options)
    inputs.check_shown(service.served, examples, body.top, explained=kind == "explain")
    if kind == "explain" and len(examples) > _MAX_EXPLAINED:
        raise ProblemError(
            413, "too_many_items", f"{_MAX_EXPLAINED} inputs are explained at a time, got {len(examples)}: send parts"
        )
    note(request.scope, n_items=len(examples))
    asked_domains(service.served.pipe.fitted_, examples, body.domain)
    work = Work(
        kind=kind,
        examples=examples,
        top=body.top,
        top_k=body.top_k,
        abstain_below=body.abstain_below,
        domain=body.domain,
    )
    return await _unless_gone(request, service.answer(work))


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`, which is cancelled as soon as the client goes away."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_leaves(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_writable(service: Service) -> None:
    if service.options.read_only:
        raise ProblemError(403, "read_only", "this server changes nothing: start it without --read-only")


def _json(content: Any, *, status: int = 200) -> Response:
    return Response(json.dumps(content, ensure_ascii=False, allow_nan=False), status, media_type="application/json")


def _file(name: str, found: dict[str, bytes]) -> Response:
    return Response(found[name], media_type=_kind(name), headers={"Cache-Control": "no-cache"})


def _kind(name: str) -> str | None:
    return _KINDS.get("." + name.rsplit(".", 1)[-1])
