"""Label 50 on the page: one input at a time, by keyboard, then adapt, see before and after, and undo."""

import re

import pytest

from page_actions import ask
from pipelines import PAIR, TEXT, WORDS

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright").expect
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "pool.txt"
    path.write_text("".join(f"the film number {number} was great indeed\n" for number in range(60)))
    return str(path)


def test_fifty_labels_by_keyboard_adapt_the_scores_and_can_be_undone(servers, open_page, pool):
    page = ask(open_page(servers(TEXT, "knn-ue", "--ask", pool)), "a film of its own kind")
    score = page.locator("#answer").inner_text()

    assert "null" not in page.locator("#label").inner_text()
    page.get_by_role("button", name="Label 50").focus()
    page.keyboard.press("Enter")
    for number in range(50):
        expect(page.locator("#label-progress")).to_have_text(f"{number} of 50 labeled")
        page.keyboard.press("1")
    expect(page.locator("#label-adapt")).to_contain_text("50 labeled")
    page.keyboard.press("Enter")

    adapted = page.locator("#adapted")
    expect(adapted).to_contain_text("cross-validated")
    expect(adapted).to_be_focused()
    expect(adapted.get_by_role("img", name=re.compile("Reliability before"))).to_be_visible()
    expect(adapted.get_by_role("img", name=re.compile("Reliability after"))).to_be_visible()
    assert page.locator("#answer").inner_text() != score

    page.get_by_role("button", name="Undo default").click()
    expect(page.locator("#label-body")).to_contain_text("Removed the domain default")
    page.wait_for_selector("#answer:not([aria-busy])")
    assert page.locator("#answer").inner_text() == score


def test_one_can_go_back_skip_and_stop_early(servers, open_page, pool):
    page = open_page(servers(TEXT, "knn-ue", "--ask", pool))
    page.get_by_role("button", name="Label 50").click()
    first = page.locator("#label-input").inner_text()
    page.keyboard.press("1")
    expect(page.locator("#label-progress")).to_have_text("1 of 50 labeled")
    assert page.locator("#label-input").inner_text() != first

    page.keyboard.press("Backspace")
    expect(page.locator("#label-progress")).to_have_text("0 of 50 labeled")
    assert page.locator("#label-input").inner_text() == first
    page.keyboard.press("s")
    stop = page.get_by_role("button", name="Stop here and adapt")
    for _ in range(9):
        page.keyboard.press("2")
    assert stop.is_disabled()
    page.keyboard.press("2")
    stop.click()
    expect(page.locator("#label-adapt")).to_contain_text("10 labeled")


def test_sentences_are_labeled_word_by_word(servers, open_page, pool):
    page = open_page(servers(WORDS, "knn-ue", "--ask", pool))
    page.get_by_role("button", name="Label 50").click()

    page.get_by_label("film", exact=True).select_option("B-PER")
    page.get_by_role("button", name="Next (Enter)").click()

    expect(page.locator("#label-progress")).to_have_text("1 of 50 labeled")


def test_recent_inputs_are_said_to_be_kept_in_memory_only(servers, open_page):
    server = servers(PAIR, "knn-ue", "--keep-recent", "100")
    server.ask("POST", "/predict", {"inputs": [{"premise": f"text {n}", "hypothesis": "b"} for n in range(12)]})
    page = open_page(server)

    expect(page.locator("#label-body")).to_contain_text("kept in memory only")
    page.get_by_role("button", name="Label 12").click()
    expect(page.locator("#label-input")).to_contain_text("text ")


def test_a_server_without_a_pool_says_how_to_get_one(servers, open_page):
    page = open_page(servers(TEXT))

    expect(page.locator("#label-body")).to_contain_text("--ask POOL or --keep-recent N")


def test_the_pool_of_recent_inputs_grows_with_every_question(servers, open_page):
    page = open_page(servers(TEXT, "knn-ue", "--keep-recent", "30"))
    expect(page.get_by_role("button", name="Label 50")).to_be_disabled()

    ask(page, "a film of its own kind")

    expect(page.get_by_role("button", name="Label 1", exact=True)).to_be_enabled()
    expect(page.locator("#label-body")).to_contain_text("from the last 1 inputs")


def test_one_may_ask_for_the_scores_of_a_domain(servers, open_page, pool):
    page = open_page(servers(TEXT, "knn-ue", "--ask", pool, "--max-items", "200"))
    assert page.locator("#ask-domain").inner_text() == ""
    page.get_by_role("button", name="Label 50").click()
    for number in range(12):
        expect(page.locator("#label-progress")).to_have_text(f"{number} of 50 labeled")
        page.keyboard.press("12"[number % 2])
    page.get_by_role("button", name="Stop here and adapt").click()
    page.get_by_label("Domain", exact=True).fill("tweets")
    page.keyboard.press("Enter")
    expect(page.locator("#adapted")).to_contain_text("cross-validated")

    page.get_by_label("Scores of the domain").select_option("tweets")
    with page.expect_request("**/explain") as asked:
        ask(page, "a film of its own kind")

    assert asked.value.post_data_json["domain"] == "tweets"
