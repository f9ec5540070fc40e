"""The VADER sets: movie, shopping, newspaper and tweet snippets, each rated from -4 to 4 by at least 15 people.

They travel inside the source distribution of vaderSentiment, so that whoever can install packages can have them.
Hutto and Gilbert (2014).
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from knn_ue.arrays import check_choice
from knn_ue.data.rows import TextRow
from knn_ue.data.splits import split_rows
from knn_ue.errors import InvalidInputError

VaderName = Literal["movies", "amazon", "nyt", "tweets"]
VaderSplit = Literal["all", "train", "validation", "test"]
Ambiguous = Literal["keep", "drop"]

REQUIREMENT = "vaderSentiment==3.3.2"
SDIST = "vaderSentiment-3.3.2.tar.gz"
SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
SPLIT_FRACTIONS = {"train": 0.7, "validation": 0.15, "test": 0.15}
SPLIT_SEED = 0
AMBIGUOUS_BELOW = 0.5

_INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
_STEMS = {
    "movies": "movieReviewSnippets",
    "amazon": "amazonReviewSnippets",
    "nyt": "nytEditorialSnippets",
    "tweets": "tweets",
}
_TIMEOUT_SECONDS = 600
_EMPHASIS = re.compile(r"[\s.,!?]+")


def read_vader(name: VaderName, *, split: VaderSplit = "all", ambiguous: Ambiguous = "keep") -> Iterator[TextRow]:
    """Yield the rated texts as "pos" (mean rating above 0) or "neg" (below 0), in the order of the files.

    Texts that differ only in case, white space and the marks . , ! ? are duplicates: the first stands. A mean of
    exactly 0 is left out, and with `ambiguous="drop"` every mean nearer to 0 than 0.5. `label_counts` counts the raters
    above, at and below 0. A split takes 70, 15 or 15 percent of the rows, drawn with a fixed seed.
    """
    check_choice(name, "the vader set", get_args(VaderName))
    check_choice(split, "split", get_args(VaderSplit))
    check_choice(ambiguous, "ambiguous", get_args(Ambiguous))
    rows = _labeled(*_unpack(fetch_sdist(), _STEMS[name]), threshold=AMBIGUOUS_BELOW if ambiguous == "drop" else 0.0)
    if split == "all":
        return rows
    parts = split_rows(rows, list(SPLIT_FRACTIONS.values()), seed=SPLIT_SEED)
    return iter(dict(zip(SPLIT_FRACTIONS, parts, strict=True))[split])


def cache_folder() -> Path:
    """Return where fetched data is kept: $KNN_UE_CACHE, or ~/.cache/knn-ue."""
    chosen = os.environ.get("KNN_UE_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "knn-ue"


def fetch_sdist() -> bytes:
    """Return the checked bytes of the source distribution, from the cache or else through the user's pip."""
    path = cache_folder() / SDIST
    try:
        if not path.exists():
            _download(path)
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"the cache folder {path.parent} cannot be used ({error.strerror or error}): "
            "free it or set KNN_UE_CACHE to a folder you may write to"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise InvalidInputError(f"{path} must have the SHA-256 {SHA256}, got {found}: delete it and try again")
    return content


def _download(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # pip runs the package's setup.py to learn its metadata: with the hash required, never that of another file.
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(f"{REQUIREMENT} --hash=sha256:{SHA256}\n", encoding="utf-8")
        # -P: a module of the user's in the working folder must not stand in for one of pip's.
        command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-input", "--no-deps", "--no-binary", "vaderSentiment", "--require-hashes", "--dest", folder]
        command += ["--requirement", str(requirements)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise _unreachable(f"no answer in {_TIMEOUT_SECONDS} s", path) from None
        fetched = Path(folder, SDIST)
        if done.returncode or not fetched.exists():
            raise _unreachable(_reason(done.stderr), path)
        fetched.replace(path)


def _unreachable(reason: str, path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"pip could not fetch {REQUIREMENT} ({reason}): let pip reach a package index, "
        f"or put {SDIST} into {path.parent} yourself"
    )


def _reason(stderr: str) -> str:
    """Return what pip said last, without addresses."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    last = (errors or lines or ["no reason given"])[-1]
    return re.sub(r"\w+://\S+", "...", last)[:200]


def _unpack(sdist: bytes, stem: str) -> tuple[str, str]:
    """Return the texts and the ratings of one set, read in memory: nothing of the archive is written to disk."""
    inner = _member(sdist, _INNER)
    texts, ratings = (
        _member(inner, f"hutto_ICWSM_2014/{stem}_{kind}.txt").decode("utf-8-sig")
        for kind in ("GroundTruth", "anonDataRatings")
    )
    return texts, ratings


def _member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        member = tar.extractfile(name)
        if member is None:
            raise InvalidInputError(f"{SDIST} must hold the file {name}: delete it from the cache and try again")
        return member.read()


def _labeled(texts: str, ratings: str, *, threshold: float) -> Iterator[TextRow]:
    rated = {columns[0]: json.loads(columns[3]) for columns in _table(ratings)}
    seen: set[str] = set()
    for key, mean, text in _table(texts):
        same = _EMPHASIS.sub("", text.casefold()) or text
        if same in seen:
            continue
        seen.add(same)
        if float(mean) == 0.0 or abs(float(mean)) < threshold:
            continue
        votes: list[int] = rated[key]
        counts = {
            "pos": sum(vote > 0 for vote in votes),
            "neutral": votes.count(0),
            "neg": sum(vote < 0 for vote in votes),
        }
        yield TextRow(text.strip(), "pos" if float(mean) > 0 else "neg", counts, tuple(votes))


def _table(content: str) -> Iterator[list[str]]:
    return (line.split("\t") for line in content.split("\r\n") if line)
