"""The report as a new reader gets it: one safe page, the evaluation's numbers, and what it says of what is missing."""

import dataclasses
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from knn_ue.calibrators import TemperatureScaling
from knn_ue.evaluation import STYLES
from knn_ue.methods import make_calibrator
from knn_ue.report import LeadTable, build_report
from knn_ue.types import Outputs

STRANGE = "<script>alert('x')</script> & \"quoted\" مرحبا 🙂 \x00 end"
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Reads a page, and remembers every element, what was left open, and the text outside of <style>."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.errors, self.texts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def report(hard_toy):
    train, validation, test, out = hard_toy
    calibrators = {name: make_calibrator(name, train).fit(validation) for name in ("temperature", "knn-ue")}
    strange = dataclasses.replace(test, texts=[STRANGE] * len(test))
    sets = {"far <away>": out, "unlabelled": dataclasses.replace(out.take(slice(0, 50)), labels=None)}
    return build_report(
        calibrators, strange, sets, n_bootstrap=5, title="A & <B>", notes=["a <note>"], context={"command": "x <y>"}
    )


@pytest.fixture(scope="module")
def page(report):
    return Page(report.to_html())


@pytest.fixture(scope="module")
def scaling(toy):
    return TemperatureScaling().fit(toy[1])


def small(toy, **changes):
    return dataclasses.replace(toy[2].take(slice(0, 100)), **changes)


def places(text, *marks):
    """Return where each of the marks first occurs, which must be somewhere."""
    return [text.index(mark) for mark in marks]


def test_the_summary_has_the_picture_the_sentences_the_cards_and_then_the_tables(report):
    table = LeadTable(caption="a lead table", headings=("set", "n"), rows=(("test", "1"),))
    led = dataclasses.replace(report, headline=dataclasses.replace(report.headline, tables=(table,)))

    html = places(led.to_html(), "<figure", report.headline.lead[0][:20], 'class="tiles"', table.caption)
    markdown = places(led.to_markdown(), report.headline.lead[0][:20], "Right answers on test", table.caption)

    assert html == sorted(html) and markdown == sorted(markdown)


def test_every_element_of_the_page_is_closed(page):
    assert (page.open, page.errors) == ([], [])


def test_the_page_loads_nothing_from_outside(report):
    loaded = re.findall(r"""https?:|//\w|@import|url\((?!#)|<link|<iframe|<script|\ssrc=""", report.to_html())

    assert loaded == []


def test_every_link_of_the_page_leads_to_a_place_on_it(page):
    places = {attributes.get("id") for _, attributes in page.elements}

    links = {attributes["href"] for attributes in page.all("a")}

    assert links <= {f"#{place}" for place in places}


def test_no_id_is_used_twice(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]

    assert len(ids) == len(set(ids))


def test_every_reference_inside_a_picture_leads_to_an_id(report):
    html = report.to_html()

    used = set(re.findall(r'xlink:href="#([^"]+)"|url\(#([^)]+)\)', html))

    assert {first or second for first, second in used} <= set(re.findall(r'\bid="([^"]+)"', html))


def test_every_picture_says_what_it_is(page):
    labels = [picture.get("aria-label") for picture in page.all("svg")]

    assert labels[:3] == [
        "Reliability diagram of test",
        "Reliability diagram of far <away>",
        "Risk-coverage curve of test",
    ]
    assert all(picture.get("role") == "img" for picture in page.all("svg"))


def test_every_labelled_set_has_all_pictures_and_an_unlabelled_one_its_histogram(report):
    kinds = [(picture.set_name, picture.kind) for picture in report.pictures]

    assert [kind for name, kind in kinds if name == "far <away>"] == ["reliability", "risk-coverage", "confidence"]
    assert [kind for name, kind in kinds if name == "unlabelled"] == ["confidence"]


def test_every_table_has_a_caption_and_every_heading_a_scope(page):
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(heading["scope"] in ("row", "col") for heading in page.all("th"))


def test_no_heading_skips_a_level(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("landmark", ["header", "nav", "main", "footer"])
def test_each_landmark_is_there_once(page, landmark):
    assert len(page.all(landmark)) == 1


def test_a_wide_table_scrolls_inside_a_box_that_the_keyboard_reaches(page):
    boxes = [x for x in page.all("div") if "scroll" in x.get("class", "").split()]

    assert len(boxes) == len(page.all("table"))
    assert all(box.get("tabindex") == "0" and box.get("aria-label") for box in boxes)


def test_the_page_fits_a_phone_and_follows_the_readers_color_scheme(report):
    html = report.to_html()

    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "@media (prefers-color-scheme: dark)" in html and "@media print" in html


@pytest.mark.parametrize(
    "text", ["<script>alert('x')</script> & \"quoted\" مرحبا 🙂 \ufffd end", "A & <B>", "a <note>", "x <y>"]
)
def test_a_strange_text_is_shown_as_it_is(page, text):
    assert text in page.text


def test_a_text_is_written_in_its_own_direction(page):
    assert page.all("blockquote") and all(quote["dir"] == "auto" for quote in page.all("blockquote"))


@pytest.mark.parametrize("method", ["raw", "temperature", "knn-ue"])
@pytest.mark.parametrize("table", ["test", "far <away>", "unlabelled/detection"])
def test_every_number_on_the_page_is_the_evaluations(report, page, table, method):
    found = report.evaluation.tables[table]

    shown = set(re.findall(r"\d+\.\d+", page.text))

    assert {STYLES[metric].show(value) for metric, value in found[method].items()} <= shown


def test_every_interval_is_on_the_page(report, page):
    interval = report.evaluation.tables["test"].intervals["knn-ue"]["ece"]

    assert f"{STYLES['ece'].show(interval.low)} to {STYLES['ece'].show(interval.high)}" in page.text


def test_the_headline_is_on_the_page_and_in_the_markdown(report, page):
    lead = report.headline.lead[0]

    assert lead in page.text.replace("\xa0", " ") and lead in report.to_markdown()


def test_each_mistake_comes_with_its_neighbors(report, page):
    explanation = report.mistakes[0].explanation

    assert f"{explanation.n_agreeing} of 32 neighbors agree" in page.text
    assert f"{explanation.neighbors[0].distance:.3f}" in page.text and explanation.neighbors[0].text in page.text


@pytest.mark.slow
def test_without_neighbors_the_page_says_so(scaling, toy):
    html = build_report({"a": scaling}, small(toy), n_bootstrap=0).to_html()

    assert "that needs a method that explains, such as knn-ue, and row features" in html


@pytest.mark.slow
def test_without_any_mistake_the_page_says_so(scaling):
    test = Outputs(logits=[[2.0, 0.0], [3.0, 0.0]], labels=[0, 0])

    assert "There are no wrong answers to show." in build_report({"a": scaling}, test, n_bootstrap=0).to_html()


@pytest.mark.slow
def test_a_long_text_is_cut_and_the_rest_counted(scaling, toy):
    test = small(toy, texts=["word " * 10_000] * 100)

    html = build_report({"a": scaling}, test, n_bootstrap=0).to_html()

    assert "(49,600 more characters)" in html and len(html) < 1_000_000


def test_without_matplotlib_the_page_says_so_and_keeps_its_tables(scaling, toy, monkeypatch):
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _: None)

    found = Page(build_report({"a": scaling}, small(toy), n_bootstrap=0).to_html())

    assert "There are no pictures: drawing the report's pictures needs matplotlib." in found.text
    assert found.all("table") and not found.all("svg")


@pytest.mark.slow
def test_equal_inputs_give_equal_pages(scaling, toy):
    first, second = (build_report({"a": scaling}, small(toy), n_bootstrap=3).to_html() for _ in range(2))

    assert first == second
