"""The explorer as a new user meets it: typing, reading, correcting, on a large screen, on a phone, without a mouse."""

import re
from itertools import pairwise

import pytest

from knn_ue.reasons import percent
from page_actions import ask
from pipelines import PAIR, TEXT, WORDS

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright").expect
expect.set_options(timeout=60_000)
QUESTION = "the film was great indeed"


def answer_of(server, inputs):
    status, found = server.post("/explain", {"inputs": inputs, "top": 10})
    assert status == 200
    return found["explanations"][0]


def test_a_text_is_answered_with_both_confidences_terms_and_neighbors(servers, open_page):
    server = servers(TEXT)
    page = ask(open_page(server), QUESTION)
    why = answer_of(server, QUESTION)["why"][0]

    shown = page.inner_text("#answer")
    assert f"{100 * why['raw_score']:.1f} %" in shown and f"{100 * why['score']:.1f} %" in shown
    assert page.inner_text(".predicted strong") == why["label"]
    assert [sentence for sentence in why["in_words"].values() if sentence not in " ".join(shown.split())] == []
    assert page.locator(".bar.term").count() == 2
    items = page.locator(".neighbors > li")
    assert items.count() == 8
    for place, near in enumerate(why["neighbors"]):
        text = items.nth(place).inner_text()
        assert ("✓ agrees" if near["agrees"] else "✗ differs") in text  # told by words, not by color alone
        assert near["text"] in text and near["label"] in text
        assert f"distance {near['distance']:.3f}," in text  # in as many digits as `knn-ue explain` prints
    assert page.locator("svg.map .point").count() == 8
    assert page.locator("svg.map .point.same circle").count() == why["n_agreeing"]


def test_a_strange_input_is_called_unfamiliar_before_anything_else(servers, open_page):
    server = servers(TEXT, "knn-ue", "--drift-window", "50")
    page = open_page(server)
    for number in range(4):
        page = ask(page, "zzz " * (3 + number))
        answer = answer_of(server, "zzz " * (3 + number))["answer"]
        first = page.locator("#answer > div > *").first

        strange = answer["unfamiliar"]
        assert ("Unlike the inputs it was trained on (p = 0.0" in first.inner_text()) == strange
        assert ("validation inputs" in first.inner_text()) != strange
        assert ("do not rely on this score" in page.inner_text(".predicted")) == strange
    shown = page.inner_text("#answer")
    assert "should say" not in shown and "as sure as it should be" not in shown


def test_a_text_that_is_longer_than_the_model_reads_is_said_to_be_cut(servers, open_page):
    server = servers(TEXT)
    page = ask(open_page(server), QUESTION)
    assert page.inner_text(".cut") == ""

    page = ask(page, "Ada was great " * 200)

    assert "Only the beginning was read: at most" in page.inner_text(".cut")


def test_the_page_says_what_the_command_line_says(servers, open_page):
    server = servers(TEXT)
    page = ask(open_page(server), QUESTION)
    why = answer_of(server, QUESTION)["why"][0]

    said = [text for part, text in why["in_words"].items() if part != "familiarity"]
    assert page.locator(".said li").all_inner_texts() == said
    rows = page.locator(".class-row").all_inner_texts()
    for row, one in zip(rows, why["classes"], strict=True):  # calibrated, and the model's own
        assert one["label"] in row and f"{100 * one['score']:.1f} %" in row
        assert f"model {100 * one['raw_score']:.1f} %" in row


def test_enter_asks_and_the_answer_is_announced(servers, open_page):
    page = open_page(servers(TEXT))
    page.wait_for_selector("textarea")
    page.get_by_label("Text").fill(QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-title")

    expect(page.locator("#status")).to_contain_text("The answer is")


def test_a_sample_can_be_tried_with_one_click(servers, open_page):
    page = open_page(servers(TEXT))
    page.locator(".sample").first.click()
    page.wait_for_selector("#answer-title")

    assert page.get_by_label("Text").input_value()


def test_a_pair_has_two_fields(servers, open_page):
    server = servers(PAIR)
    page = ask(open_page(server), "Ada was great", "Ada was not great")
    why = answer_of(server, {"premise": "Ada was great", "hypothesis": "Ada was not great"})["why"][0]

    assert page.inner_text(".predicted strong") == why["label"]
    assert page.get_by_label("Premise").count() == page.get_by_label("Hypothesis").count() == 1


def test_entities_are_highlighted_with_scores_and_each_word_tells_why(servers, open_page):
    server = servers(WORDS)
    page = ask(open_page(server), "Ada Lovelace went to Oslo.")
    tokens = ["Ada", "Lovelace", "went", "to", "Oslo", "."]
    answer = answer_of(server, {"tokens": tokens})

    assert [word.inner_text() for word in page.locator("button.word").all()] == tokens
    marks = page.locator("mark.entity").all_inner_texts()
    assert len(marks) == len(answer["answer"]["entities"]) > 0
    for mark, entity in zip(marks, answer["answer"]["entities"], strict=True):
        assert percent(entity["score"]) in mark
    page.get_by_role("button", name=re.compile("^went: ")).click()
    assert "“went”" in page.inner_text("#answer-title")
    assert page.inner_text(".predicted strong") == answer["why"][2]["label"]
    assert page.get_by_role("button", name=re.compile("^went: ")).get_attribute("aria-pressed") == "true"
    shown = page.inner_text("#answer")
    assert "score is the product over its words" in shown and "missed" not in shown


def test_entities_with_scores_of_their_own_say_why_and_what_may_be_missed(servers, open_page):
    server = servers(WORDS, "knn-ue-entity")
    page = ask(open_page(server, viewport={"width": 390, "height": 800}), "Ada Lovelace went to Oslo.")
    answer = answer_of(server, {"tokens": ["Ada", "Lovelace", "went", "to", "Oslo", "."]})["answer"]
    assert answer["entities"] and answer["missed"]

    rows = page.locator(".entity-reasons > li").all_inner_texts()
    for row, entity in zip(rows, answer["entities"], strict=True):
        reasons = [f"▲ raised by {x}" for x in entity["raised_by"]] + [
            f"▼ lowered by {x}" for x in entity["lowered_by"]
        ]
        assert reasons and all(text in row for text in [*reasons, percent(entity["score"])])
    warned = page.locator(".missed")
    for text, missed in zip(warned.all_inner_texts(), answer["missed"], strict=True):
        assert f"missed {missed['type']}? {percent(missed['score'])}" in text  # told by words, not by color alone
        assert all(word in text for word in missed["text"].split())
    assert warned.first.locator(".missed-words").evaluate("e => getComputedStyle(e).borderBottomStyle") == "dashed"
    whole = f"Everything right and nothing missed: {percent(answer['score'])}"
    assert whole in page.inner_text("#answer") and whole in page.inner_text("#status")
    assert "is not the product over its words" in page.inner_text("#answer")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(_FAINT) == [] and page.evaluate(_SMALL) == []


def test_a_correction_is_stored_counts_at_once_and_can_be_undone(servers, open_page):
    server = servers(TEXT)
    before = server.ask("GET", "/info")[1]["n_stored"]
    text = "a film that nobody has seen before"
    page = ask(open_page(server), text)
    page.get_by_label("It is").select_option("pos")
    page.get_by_role("button", name="Store it as an example").click()
    page.wait_for_selector("text=Stored as example")

    expect(page.locator(".neighbors > li").first).to_contain_text(text)
    assert server.ask("GET", "/info")[1]["n_stored"] == before + 1
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=Undone")
    assert server.ask("GET", "/info")[1]["n_stored"] == before


def test_the_tags_of_a_sentence_can_be_corrected(servers, open_page):
    server = servers(WORDS)
    before = server.ask("GET", "/info")[1]["n_stored"]
    page = ask(open_page(server), "Emmy Noether saw Cairo")
    page.get_by_text("Correct the tags").click()
    for word, tag in zip(("Emmy", "Noether", "saw", "Cairo"), ("B-PER", "I-PER", "O", "B-LOC"), strict=True):
        page.get_by_label(word, exact=True).select_option(tag)
    page.get_by_role("button", name="Store it as an example").click()
    page.wait_for_selector("text=Stored as examples")

    assert server.ask("GET", "/info")[1]["n_stored"] == before + 4


def test_a_training_example_is_forgotten_only_after_a_second_click(servers, open_page):
    server = servers(TEXT)
    before = server.ask("GET", "/info")[1]["n_stored"]
    page = ask(open_page(server), QUESTION)
    first = page.locator(".neighbors > li").first
    first.get_by_role("button", name=re.compile("^Forget example")).click()
    first.get_by_role("button", name="Keep it").click()
    first.get_by_role("button", name=re.compile("^Forget example")).click()
    first.get_by_role("button", name=re.compile("permanently$")).click()
    expect(page.locator("#about")).to_contain_text(f"{before - 1} training examples")

    assert server.ask("GET", "/info")[1]["n_stored"] == before - 1


def test_the_slider_shows_coverage_and_risk_and_decides_with_the_keyboard(servers, open_page):
    server = servers(TEXT)
    curve = server.ask("GET", "/validation")[1]
    page = ask(open_page(server), QUESTION)
    slider = page.get_by_label("Minimum confidence to answer")
    assert "threshold" not in page.inner_text("#answer")  # none was fitted, none is chosen
    slider.focus()
    page.keyboard.press("End")
    assert "✗ below the threshold" in page.inner_text("#answer")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert re.search(r"\babove the threshold \d", page.inner_text("#answer"))
    page.keyboard.press("Home")

    assert page.inner_text("#threshold-says") == (
        f"At 0.000, 100 % of the validation rows are answered, and {100 * curve['risk'][0]:.1f} % of those answers "
        "are wrong."
    )


def test_drift_is_shown_when_the_traffic_moves_away(servers, open_page):
    server = servers(TEXT, "knn-ue", "--drift-window", "60")
    for _ in range(2):
        status, _ = server.post("/predict", {"inputs": ["Cairo Oslo Lima Paris Turing Hopper Noether"] * 60})
        assert status == 200
    page = open_page(server)
    page.wait_for_selector("#drift:not([hidden])")
    report = server.ask("GET", "/drift")[1]

    assert report["message"] in page.inner_text("#drift")
    assert page.locator("#drift svg.histogram").count() == 2


def test_a_method_without_neighbors_says_so(servers, open_page):
    page = ask(open_page(servers(TEXT, "temperature")), QUESTION)

    shown = page.inner_text("#answer")
    assert "uses no neighbors" in shown and "cannot learn from a correction" in shown
    assert page.locator("#drift svg.histogram").count() == 1  # familiarity, without neighbors


def test_errors_are_sentences(servers, open_page):
    page = open_page(servers(TEXT, "knn-ue", "--max-characters", "50"))
    page.wait_for_selector("textarea")
    page.get_by_label("Text").fill("a" * 60)
    page.get_by_role("button", name="How sure?").click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert alert.inner_text().endswith("Your text may have 50 characters, got 60: cut it.")


def test_texts_are_shown_and_never_run(servers, open_page):
    server = servers(TEXT)
    hostile = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    _, added = server.post("/examples", {"examples": [{"text": hostile, "label": "pos"}]})
    page = open_page(server)
    page.on("dialog", lambda _: pytest.fail("a script ran"))
    ask(page, hostile)

    assert hostile in page.locator(".neighbors > li").first.inner_text()
    assert page.locator("#answer img, #answer script").count() == 0
    server.ask("DELETE", f"/examples/{added['ids'][0][0]}")


def test_a_token_is_asked_for_and_then_used(servers, open_page, tmp_path_factory):
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("correct-horse-battery-staple")
    page = open_page(servers(TEXT, "knn-ue", "--token-file", token))
    page.get_by_label("This server requires a token").fill("correct-horse-battery-staple")
    page.get_by_role("button", name="Use it").click()

    ask(page, QUESTION)
    assert page.get_by_role("alert").is_hidden()


@pytest.mark.parametrize("task", [TEXT, WORDS])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_every_screen_and_every_text_can_be_read(width, scheme, task, servers, open_page):
    page = open_page(servers(task), viewport={"width": width, "height": 800}, color_scheme=scheme)
    ask(page, "Ada Lovelace was great in Oslo")
    page.wait_for_selector("#threshold:not([hidden])")

    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(_FAINT) == []
    if width == 390:
        assert page.evaluate(_SMALL) == []


def test_everything_can_be_reached_and_has_a_name_without_a_mouse(servers, open_page):
    page = open_page(servers(TEXT))
    page.wait_for_selector("textarea")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    ask(page, QUESTION)
    page.wait_for_selector("#threshold:not([hidden])")
    page.focus(".skip")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.tagName + ' ' + (document.activeElement.id || '')")
        if name.startswith("BODY"):
            break
        reached.append(name)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"

    for kind in ("TEXTAREA ask-text", "SELECT right-0", "INPUT threshold-slider"):
        assert kind in reached
    assert page.evaluate(_NAMELESS) == []
    heads = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((head) => Number(head.tagName[1]))")
    assert heads[0] == 1 and all(after - before <= 1 for before, after in pairwise(heads))


def test_the_documentation_lists_every_address_without_an_outside_asset(servers, open_page):
    server = servers(TEXT)
    page = open_page(server, "/docs")
    page.wait_for_selector("#operations section")
    api = server.ask("GET", "/openapi.json")[1]

    shown = page.inner_text("#operations")
    for path, methods in api["paths"].items():
        assert path in shown and all(method.upper() in shown for method in methods)


# Texts whose contrast with what is behind them is below 4.5, as WCAG counts it.
_FAINT = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((value) => value / 255)
    .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] > 0.5) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')]
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
    .filter((node) => node.checkVisibility() && !node.closest('svg, .unseen, .skip, noscript'))
    .map((node) => {
      const [one, two] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
      return [node.textContent.slice(0, 30), (one + 0.05) / (two + 0.05)];
    })
    .filter(([, contrast]) => contrast < 4.5);
}"""
# Buttons and fields that a finger misses.
_SMALL = """() => [...document.querySelectorAll('button, select, textarea, input')]
  .filter((node) => node.checkVisibility()).map((node) => [node.outerHTML.slice(0, 60), node.getBoundingClientRect()])
  .filter(([, box]) => box.height < 24 || box.width < 10).map(([html]) => html)"""
_NAMELESS = """() => [...document.querySelectorAll('button, select, textarea, input, a, svg[role=img]')]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.innerText || node.textContent || '').trim() && !node.getAttribute('aria-label')
    && !(node.labels && node.labels.length)).map((node) => node.outerHTML.slice(0, 80))"""
