"""What people type, choose and store on the page is never lost, mixed up, or met with silence."""

import re

import pytest

from page_actions import ask
from pipelines import PAIR, TEXT, WORDS

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright").expect
expect.set_options(timeout=60_000)


def stored_of(server):
    return server.ask("GET", "/info")[1]["n_stored"]


@pytest.mark.parametrize(("task", "names"), [(TEXT, ["Text"]), (PAIR, ["Premise", "Hypothesis"])])
def test_nothing_typed_is_answered_with_a_sentence(task, names, servers, open_page):
    page = open_page(servers(task))
    page.wait_for_selector("textarea")
    for name in names:
        page.get_by_role("button", name="How sure?").click()
        expect(page.get_by_role("alert")).to_have_text(f"{name} is empty: type something first.")
        expect(page.locator(f"#ask-{name.lower()}")).to_be_focused()
        page.keyboard.type("  ")
        page.keyboard.press("Enter")  # spaces are nothing, too
        expect(page.get_by_role("alert")).to_be_visible()
        page.keyboard.type("the film was great")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-title")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_chosen_tags_outlive_a_look_at_another_word_and_at_the_slider(servers, open_page):
    page = ask(open_page(servers(WORDS)), "Emmy Noether saw Cairo")
    page.get_by_text("Correct the tags").click()
    page.get_by_label("Cairo", exact=True).select_option("B-LOC")
    page.get_by_label("saw", exact=True).select_option("I-PER")

    page.get_by_role("button", name=re.compile("^saw: ")).click()
    page.get_by_label("Minimum confidence to answer").press("End")

    assert page.get_by_label("Cairo", exact=True).is_visible()
    assert page.get_by_label("Cairo", exact=True).input_value() == "B-LOC"
    assert page.get_by_label("saw", exact=True).input_value() == "I-PER"


def test_a_correction_belongs_to_the_text_that_was_answered(servers, open_page):
    server = servers(TEXT, "knn-ue", "--max-characters", "50")
    page = ask(open_page(server), "a film of its own kind")
    page.get_by_label("Text").fill("a" * 60)
    page.get_by_role("button", name="How sure?").click()
    page.get_by_role("alert").wait_for()  # refused: what is shown is still the answer to the first

    page.get_by_role("button", name="Store it as an example").click()
    expect(page.locator("#told")).to_contain_text("Stored as example")
    expect(page.locator(".neighbors > li").first).to_contain_text("a film of its own kind")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#told")).to_contain_text("Undone")


def test_the_keyboard_stays_where_something_was_stored_and_a_new_question_starts_anew(servers, open_page):
    server = servers(TEXT)
    before = stored_of(server)
    page = ask(open_page(server), "a film for the keyboard")
    page.get_by_role("button", name="Store it as an example").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Undo"
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_have_text("Undone: the example is removed.")
    assert stored_of(server) == before

    ask(page, "another film")
    expect(page.locator("#told")).to_have_text("")


@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_the_commands_of_the_documentation_work_with_this_model(task, servers, open_page):
    import json

    server = servers(task)
    page = open_page(server, "/docs")
    page.wait_for_selector("#operations section")
    ids = []
    for path in ("/predict", "/explain", "/examples"):
        command = page.locator(f"[id='post{path}'] pre").inner_text()
        assert "Authorization" not in command
        status, found = server.post(path, json.loads(re.search(r"-d '(.*)'", command)[1]))
        assert status in (200, 201), found
        ids += [number for one in found.get("ids", []) for number in one]
    for number in ids:
        assert server.ask("DELETE", f"/examples/{number}")[0] == 200


def test_the_commands_of_the_documentation_name_the_token_where_one_is_needed(servers, open_page, tmp_path_factory):
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("correct-horse-battery-staple")
    page = open_page(servers(TEXT, "knn-ue", "--token-file", token), "/docs")
    page.wait_for_selector("#operations section")

    assert "-H 'Authorization: Bearer TOKEN'" in page.locator("[id='post/predict'] pre").inner_text()
