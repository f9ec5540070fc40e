"""What people do on the explorer page."""

from typing import Any


def ask(page: Any, *texts: str) -> Any:
    """Type and ask; return the page once it shows the answer."""
    page.wait_for_selector("textarea")
    for area, text in zip(page.query_selector_all("textarea"), texts, strict=True):
        area.fill(text)
    page.get_by_role("button", name="How sure?").click()
    page.wait_for_selector("#answer-title")
    page.wait_for_selector("#answer:not([aria-busy])")
    return page
