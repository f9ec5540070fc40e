"""The report on paper: every table within the page, nothing folded away, no card cut in two, dark ink on white."""

import pytest

from knn_ue.methods import make_calibrator
from knn_ue.report import build_report
from knn_ue.toy import pockets

pytestmark = pytest.mark.slow

A4_WITHOUT_MARGINS = 680  # CSS pixels of 180 mm


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    train, validation, test, far = pockets(n_train=300, n_validation=200, n_test=200, n_out=200, seed=0)
    names = ("temperature", "knn-ue-no-label", "knn-ue", "mahalanobis")
    calibrators = {name: make_calibrator(name, train).fit(validation) for name in names}
    sets = dict.fromkeys(("amazon", "nyt", "tweets"), far)
    report = build_report(calibrators, test, sets, method="knn-ue", n_bootstrap=20, n_mistakes=1)
    return report.write(tmp_path_factory.mktemp("printed")).html


@pytest.fixture
def paper(browser, written):
    """The report as a reader prints it who reads it in dark mode."""
    page = browser.new_page(viewport={"width": A4_WITHOUT_MARGINS, "height": 900}, color_scheme="dark")
    page.goto(written.as_uri())
    page.emulate_media(media="print")
    yield page
    page.close()


def styles(page, selector, name):
    return set(page.eval_on_selector_all(selector, f"found => found.map(x => getComputedStyle(x).{name})"))


def test_no_table_of_a_printed_report_is_wider_than_the_page(paper):
    assert paper.evaluate("document.documentElement.scrollWidth") <= A4_WITHOUT_MARGINS


def test_what_is_folded_away_on_a_screen_is_open_on_paper(paper):
    heights = paper.eval_on_selector_all("details table", "found => found.map(x => x.getBoundingClientRect().height)")

    assert heights and min(heights) > 0


@pytest.mark.parametrize("selector", [".lead", ".tiles > div", "figure", "article", ".grid > .card", "tr"])
def test_no_page_ends_inside_a_card_a_figure_or_a_row(paper, selector):
    assert styles(paper, selector, "breakInside") == {"avoid"}


def test_headings_stay_with_what_they_introduce(paper):
    assert styles(paper, "h2, h3, summary", "breakAfter") == {"avoid"}
    assert styles(paper, "thead", "display") == {"table-header-group"}


def test_a_report_is_printed_in_dark_ink_on_white_also_from_dark_mode(paper):
    assert styles(paper, "body", "color") == {"rgb(0, 0, 0)"}
    assert styles(paper, "body, .card, table", "backgroundColor") <= {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    assert styles(paper, ".tag.better", "color") <= {"rgb(20, 104, 58)"}
