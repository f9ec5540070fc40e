"""The explorer and the API's documentation: plain files of this package, nothing from elsewhere."""

from importlib.resources import files

from fastapi import APIRouter, Response

from knn_ue.report.html_page import style_sheet
from knn_ue.serving.problems import ProblemError

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


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


def _file(name: str, found: dict[str, bytes]) -> Response:
    return Response(found[name], media_type=_kind(name), headers={"Cache-Control": "no-cache"})


def _kind(name: str) -> str | None:
    return _KINDS.get("." + name.rsplit(".", 1)[-1])
