"""One voice: phrases that the glossary replaces do not come back, wherever a user may read them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES = sorted(p for p in (ROOT / "docs").rglob("*.md") if not p.name.startswith("results"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *GUIDES]
SOURCES = (ROOT / "src" / "knn_ue", ROOT / "lab" / "src" / "knn_ue_lab")
CODE = sorted(p for folder in SOURCES for kind in ("py", "js", "html") for p in folder.rglob(f"*.{kind}"))

# What we do not write -> what we write.
BANNED = {
    r"texts a step|words a step|rows a step": "batch size",
    r"at most so many": "maximum number of",
    r"a line a (minute|row|text)|\bifever\b": "one line per minute, whenever",
    r"a column a method|one row an example|one line an answer": "per row, per class, for each",
    r"(fit|fitted|made|chosen|drawn|built|trained) anew|\banew\b": "refit, rebuild, again",
    r"told apart|told from\b": "OOD detection",
    r"at home and abroad|\babroad\b": "in and out of domain",
    r"made strange|foreign rows": "out of domain",
    r"parted by": "separated by",
    r"how likely that promise": "allowed failure probability of the guarantee",
    r"turns? the prediction over": "flips the prediction",
    r"told 503|when to come again|told to come again": "excess requests get 503 with Retry-After",
    r"for want of": "because ... was unreachable",
    r"of every class as many": "balanced across classes",
    r"clear by luck|clearly (better|worse)|\bfor sure\b|\bsurely\b": "significantly better",
    r"clock on the wall": "wall-clock time",
    r"answer only from this confidence": "minimum confidence to answer",
    r"(?<!aria-)(?<!\?un)labelled(?!by)|neighbour|behaviour|colour": "American spelling",
    r"normalis|minimis|maximis|memoris|initialis|regularis|generalis|recognis|summaris|licence": "American spelling",
    r"\bmended\b|\bby hand\b|for ever\b|as we write it": "fixed, yourself, forever, written by knn-ue",
    r"as sure as it should be|sure enough|make (the|its) scores? right": "what it was calibrated on",
}


def test_no_phrase_that_the_glossary_replaces():
    found = []
    for path in [*PAGES, *CODE]:
        text = path.read_text(encoding="utf-8").lower()  # twice as fast as IGNORECASE
        found += [
            f"{path.relative_to(ROOT)}:{text[: match.start()].count(chr(10)) + 1}: {match.group()!r}: write {instead!r}"
            for phrase, instead in BANNED.items()
            for match in re.finditer(phrase.replace(" ", r"\s+"), text)
        ]

    assert not found


READ = [
    ROOT / "CHANGELOG.md",
    *(path for kind in ("md", "ipynb") for path in sorted((ROOT / "docs").rglob(f"*.{kind}"))),
]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_no_page_or_notebook_names_a_machine(path):
    assert not re.findall(r"(?<![\w.])/(?:work|root|home|Users)/\S*", path.read_text(encoding="utf-8"))


def test_the_list_finds_what_it_is_about():
    assert any(re.search(phrase, "Texts a step; 32.", re.IGNORECASE) for phrase in BANNED)
    assert not any(re.search(phrase, "Batch size (default 32).", re.IGNORECASE) for phrase in BANNED)
