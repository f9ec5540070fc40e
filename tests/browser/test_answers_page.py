"""The explorer of a folder that judges given answers: text and answer in, score and reasons out; on three screens."""

import pytest

from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.reasons import percent
from knn_ue.toy import given_answers
from torture.forked_server import serving

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright").expect
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    outputs, _ = given_answers(n_labeled=120, n_test=1, seed=3)
    names = outputs.class_names
    both = zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
    rows = [{"text": text, "answer": names[answer], "label": names[label]} for text, answer, label in both]
    folder = tmp_path_factory.mktemp("answers") / "ue"
    UncertaintyPipeline.from_answers().fit(rows).save(folder)
    with serving(folder) as found:
        yield found


def ask(page, text, answer, confidence=""):
    page.wait_for_selector("#ask-answer")
    for name, value in (("text", text), ("answer", answer), ("confidence", confidence)):
        page.fill(f"#ask-{name}", value)
    page.get_by_role("button", name="How sure?").click()
    page.wait_for_selector("#answer-title")
    page.wait_for_selector("#answer:not([aria-busy])")
    return page


@pytest.mark.parametrize(
    "options",
    [{}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}],
    ids=["desktop", "phone", "dark"],
)
def test_an_answer_is_judged_with_its_reasons_and_labeled_rows(server, open_page, options):
    page = ask(open_page(server, **options), "a new match by goal", "food", "90")
    sent = {"text": "a new match by goal", "answer": "food", "confidence": 0.9}
    _, found = server.post("/explain", {"inputs": [sent], "top": 10})
    (why,) = found["explanations"][0]["why"]

    shown = " ".join(page.inner_text("#answer").split())
    assert page.inner_text(".predicted strong") == "food"
    assert percent(why["score"]) in shown and "The model alone says 90.0 %." in shown
    assert [part for part in ("verdict", "for", "against", "own") if why["in_words"].get(part, "") not in shown] == []
    assert page.locator(".neighbors > li").count() == 10 and "right: " in shown and "the model said" in shown
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert "each scored as if it were new" in page.inner_text("#threshold")


def test_nothing_is_an_answer_too_and_a_sample_brings_its_own(server, open_page):
    page = ask(open_page(server), "a new match by goal", "")
    assert "none of the labels counts as wrong" in page.inner_text("#answer")
    assert "The model did not say how sure it is." in page.inner_text("#answer")

    page.locator(".sample").first.click()

    expect(page.locator("#ask-answer")).not_to_have_value("")
