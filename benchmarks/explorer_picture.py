"""The picture of the explorer in README.md: a served UE folder, asked about a sentence it was not trained for.

    knn-ue demo --out knn-ue-demo && knn-ue serve knn-ue-demo/ue &
    python benchmarks/explorer_picture.py --url http://127.0.0.1:8000 --out docs/explorer.png

Needs playwright and Chromium (CHROMIUM names its path).
"""

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

SENTENCE = "the committee postponed its vote on the budget until next month"


def main() -> None:
    """Ask, wait for the answer, and keep the upper part of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--out", type=Path, default=Path("docs/explorer.png"))
    options = parser.parse_args()
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1000, "height": 860})
        page.goto(options.url)
        page.get_by_role("textbox").first.fill(SENTENCE)
        page.get_by_role("button", name="How sure?").click()
        page.get_by_text("Why this score").wait_for(timeout=120_000)
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=options.out)
        browser.close()


if __name__ == "__main__":
    main()
