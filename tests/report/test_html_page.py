"""The frame and the style sheet of every page we write."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

from knn_ue.report.html_page import page, style_sheet

ROOT = Path(__file__).parents[2]


def test_the_style_sheet_is_part_of_the_package():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    shipped = content["tool"]["setuptools"]["package-data"]["knn_ue"]

    assert any(fnmatch("report/report.css", pattern) for pattern in shipped)


def test_a_page_carries_the_whole_style_sheet():
    html = page("title", links={}, body=[], footer="", name="report")

    assert f"<style>\n{style_sheet()}</style>" in html


def test_plain_text_of_a_page_is_escaped_and_its_body_is_not():
    html = page("<title>", links={"a": "<link>"}, body=["<p>body</p>"], footer="<footer>", name="report")

    assert html.count("&lt;title&gt;") == 2 and "&lt;link&gt;" in html and "&lt;footer&gt;" in html
    assert "<p>body</p>" in html
