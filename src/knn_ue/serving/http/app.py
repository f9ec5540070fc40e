"""The app: a UE folder in, an ASGI application out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware

from knn_ue.encoding import Example
from knn_ue.folder import library_version
from knn_ue.pipeline.rows import iter_examples
from knn_ue.serving.http.guard import RequestGuard
from knn_ue.serving.http.routes import api_routes, page_routes
from knn_ue.serving.logs import log
from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import add_handlers
from knn_ue.serving.work.answering import Work
from knn_ue.serving.work.service import Service
from knn_ue.serving.work.state import load_served
from knn_ue.tasks import TASKS

_ABOUT = """Answers with calibrated confidence, and the training examples that say why.

Every error is `{"error": sentence, "code": code}`. A 503 has a `Retry-After`."""


def create_app(path: str | Path, options: ServeOptions | None = None) -> FastAPI:
    """Load the UE folder `path` and return the app that serves it; raises where the folder cannot be trusted."""
    options = options or ServeOptions()
    served = load_served(Path(path), device=options.device, trust_remote_code=options.trust_remote_code)
    pool = None
    if options.ask is not None:
        named, words_of = options.ask_columns, served.pipe.encoder.words_of
        pool = list(iter_examples(options.ask, served.pipe.task, labeled=False, columns=named, words_of=words_of))
    service = Service(served, options, pool)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        # The first pass through a model takes longer than all others: no client shall wait for it.
        given = {"answer": ""} if served.pipe.encoder.gives_answers else None
        warm_up = Example(("warm", "up") if TASKS[served.pipe.task].is_pair else ("warm",), given=given)
        await service.batcher.submit(Work(kind="encode", examples=[warm_up]), 1)
        log("ready", **{key: served.facts()[key] for key in ("task", "method", "n_stored", "generation")})
        yield
        await service.stop()
        log("stopped")

    app = FastAPI(
        title="knn-ue",
        version=library_version(),
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page loads its script from elsewhere; the page has ours
        redoc_url=None,
    )
    app.state.service = service
    add_handlers(app)
    # RequestGuard checks the token; here it is only told to those who read the documentation.
    secured = [] if options.token is None else [Security(HTTPBearer(auto_error=False))]
    app.include_router(api_routes(service), dependencies=secured)
    app.include_router(page_routes())
    app.add_middleware(RequestGuard, options=options, metrics=service.metrics, is_crowded=lambda: service.is_crowded())
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=options.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        )
    # FastAPI would build its routes at the first request; two apps that do so at once disturb each other's warnings.
    app.openapi()
    return app
