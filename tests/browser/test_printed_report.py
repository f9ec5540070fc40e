"""The report on paper: every table within the page."""

import pytest

from knn_ue.methods import make_calibrator
from knn_ue.report import build_report
from knn_ue.toy import pockets

pytestmark = pytest.mark.slow

A4_WITHOUT_MARGINS = 680  # CSS pixels of 180 mm


def test_no_table_of_a_printed_report_is_wider_than_the_page(browser, tmp_path):
    train, validation, test, far = pockets(n_train=300, n_validation=200, n_test=200, n_out=200, seed=0)
    names = ("temperature", "knn-ue-no-label", "knn-ue", "mahalanobis")
    calibrators = {name: make_calibrator(name, train).fit(validation) for name in names}
    sets = dict.fromkeys(("amazon", "nyt", "tweets"), far)
    build_report(calibrators, test, sets, method="knn-ue", n_bootstrap=20).write(tmp_path)
    page = browser.new_page(viewport={"width": A4_WITHOUT_MARGINS, "height": 900})
    page.goto((tmp_path / "report.html").as_uri())

    page.emulate_media(media="print")

    assert page.evaluate("document.documentElement.scrollWidth") <= A4_WITHOUT_MARGINS
