"""The frame of every page we write: head, contents, body, footer; no script, no outside address."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from knn_ue.report.html_tables import plain


def page(
    title: str, *, links: Mapping[str, str], body: Iterable[str], footer: str, name: str, about: str | None = None
) -> str:
    """Return a whole page; `body` and `about` are HTML, all else is plain text.

    `links` are the contents, names of sections with what to call them. `name` is what the page is, one word. `about`
    stands beneath the title.
    """
    contents = "\n".join(f'<li><a href="#{plain(section)}">{plain(text)}</a></li>' for section, text in links.items())
    return _PAGE.format(
        title=plain(title),
        css=style_sheet(),
        name=plain(name),
        about="" if about is None else f'<p class="soft">{about}</p>\n',
        links=contents,
        body="\n".join(body),
        footer=plain(footer),
    )


@cache
def style_sheet() -> str:
    """Return the style sheet of every page we write: phone first, light and dark, and on paper."""
    return files("knn_ue.report").joinpath("report.css").read_text(encoding="utf-8")


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<a class="skip" href="#{name}">Skip to the {name}</a>
<header>
<h1>{title}</h1>
{about}</header>
<nav aria-label="Contents">
<ul>
{links}
</ul>
</nav>
<main id="{name}">
{body}
</main>
<footer><p>{footer}</p></footer>
</body>
</html>
"""
