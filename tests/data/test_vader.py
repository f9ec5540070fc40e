"""The VADER sets: from a small archive of the same form, and once, slowly, from the package index."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from knn_ue.data import TextRow, cache_folder, read_rows, read_vader, vader
from knn_ue.errors import InvalidInputError

TEXTS = [
    ("1", "1.5", "Good film."),
    ("2", "-0.25", "so so"),
    ("3", "0", "A film."),
    ("4", "-2", "Bad film :("),
    ("5", "2", "GOOD  film!!!"),
    ("6", "0.5", "Fair film"),
    ("7", "3", "Bad film :)"),
    ("8", "1", "!"),
    ("9", "1", "..."),
]
RATINGS = ["[2, 1]", "[0, 0, 0, -1]", "[0, 0]", "[-2, -2]", "[2, 2]", "[1, 0]", "[3, 3]", "[1]", "[1]"]


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)  # without the time of day, which would change its checksum


def small_sdist() -> bytes:
    texts = "".join("\t".join(columns) + "\r\n" for columns in TEXTS)
    # The ratings stand in another order and behind a byte order mark, as in the real files.
    ratings = [f"{key}\t{mean}\t0.1\t{votes}\r\n" for (key, mean, _), votes in zip(TEXTS, RATINGS, strict=True)]
    folder = "hutto_ICWSM_2014/movieReviewSnippets_"
    inner = archive(
        {
            f"{folder}GroundTruth.txt": texts.encode(),
            f"{folder}anonDataRatings.txt": ("\ufeff" + "".join(reversed(ratings))).encode(),
        }
    )
    return archive({"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": inner})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder in which the small archive counts as the right one."""
    monkeypatch.setenv("KNN_UE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vader, "SHA256", hashlib.sha256(small_sdist()).hexdigest())
    return tmp_path / "cache"


@pytest.fixture
def filled(cache: Path) -> Path:
    cache.mkdir()
    (cache / vader.SDIST).write_bytes(small_sdist())
    return cache


def test_the_sign_of_the_mean_is_the_label(filled: Path) -> None:
    rows = list(read_vader("movies"))

    assert [(row.text, row.label) for row in rows] == [
        ("Good film.", "pos"),
        ("so so", "neg"),
        ("Bad film :(", "neg"),
        ("Fair film", "pos"),
        ("Bad film :)", "pos"),
        ("!", "pos"),
        ("...", "pos"),
    ]


def test_individual_ratings_and_their_counts_are_kept(filled: Path) -> None:
    rows = list(read_vader("movies"))

    assert rows[1] == TextRow("so so", "neg", {"pos": 0, "neutral": 3, "neg": 1}, (0, 0, 0, -1))


def test_ambiguous_texts_are_left_out_on_demand(filled: Path) -> None:
    rows = read_rows("vader:movies?ambiguous=drop", "text-classification")

    assert [row.text for row in rows] == ["Good film.", "Bad film :(", "Fair film", "Bad film :)", "!", "..."]


def test_the_splits_part_the_set(filled: Path) -> None:
    parts = [list(read_rows(f"vader:movies:{split}", "text-classification")) for split in vader.SPLIT_FRACTIONS]

    assert sorted(row.text for part in parts for row in part) == sorted(row.text for row in read_vader("movies"))


def test_a_source_read_unlabeled_has_no_labels(filled: Path) -> None:
    rows = list(read_rows("vader:movies", "text-classification", labeled=False))

    assert rows[0] == TextRow("Good film.")


@pytest.mark.parametrize(
    ("source", "task", "words"),
    [
        ("vader:books", "text-classification", "the vader set must be one of 'movies', .*got 'books'"),
        ("vader:movies:dev", "text-classification", "split must be one of .*got 'dev'"),
        ("vader:movies?ambiguous=no", "text-classification", "ambiguous must be one of 'keep', 'drop', got 'no'"),
        ("vader:movies?seed=1", "text-classification", r"the option of 'vader:movies\?seed=1' must be \?ambiguous=..."),
        ("vader:movies", "text-pair", "'vader:movies' is a source for the task text-classification, got 'text-pair'"),
    ],
)
def test_a_wrong_name_is_an_error_before_anything_is_fetched(cache: Path, source: str, task, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_rows(source, task)


def test_a_file_with_another_checksum_is_refused(filled: Path) -> None:
    (filled / vader.SDIST).write_bytes(b"something else")

    with pytest.raises(InvalidInputError, match=r"must have the SHA-256 .*, got .*: delete it and try again"):
        read_vader("movies")


def test_pip_is_asked_for_the_pinned_hash(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append(Path(command[-1]).read_text())
        Path(command[command.index("--dest") + 1], vader.SDIST).write_bytes(small_sdist())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)

    read_vader("movies")

    assert seen == [f"vaderSentiment==3.3.2 --hash=sha256:{vader.SHA256}\n"]


def test_a_fetched_file_is_alone_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--dest") + 1], vader.SDIST).write_bytes(small_sdist())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)

    read_vader("movies")

    assert [path.name for path in cache.iterdir()] == [vader.SDIST]


def test_a_second_reading_does_not_ask_pip(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)

    assert len(list(read_vader("movies"))) == 7


@pytest.mark.slow
def test_without_an_index_the_way_out_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")

    with pytest.raises(
        InvalidInputError,
        match=rf"pip could not fetch .*: let pip reach a package index, or put {vader.SDIST} into {cache} yourself",
    ):
        read_vader("movies")


def test_a_failed_fetch_leaves_nothing_behind_and_names_no_address(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = "WARNING: slow\nERROR: Could not reach https://index.example/simple, giving up\n"
    failed = subprocess.CompletedProcess([], 1, "", stderr)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(InvalidInputError, match=r"\(Could not reach \.\.\. giving up\)"):
        read_vader("movies")

    assert list(cache.iterdir()) == []


def test_a_fetch_that_never_ends_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", pip)

    with pytest.raises(InvalidInputError, match="no answer in 600 s"):
        read_vader("movies")


def test_an_unusable_cache_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KNN_UE_CACHE", str(tmp_path / "file"))

    with pytest.raises(InvalidInputError, match=r"the cache folder .*file cannot be used .*set KNN_UE_CACHE"):
        read_vader("movies")


def test_the_cache_is_in_the_home_folder_unless_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KNN_UE_CACHE", raising=False)

    assert cache_folder() == Path.home() / ".cache" / "knn-ue"


@pytest.mark.slow
def test_the_real_sets_have_the_numbers_we_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = os.environ.get("KNN_UE_CACHE") or str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNN_UE_CACHE", folder)
        try:
            vader.fetch_sdist()
        except InvalidInputError as error:
            pytest.skip(f"no package index: {error}")

        counts = {
            name: Counter(row.label for row in read_vader(name)) for name in ("movies", "amazon", "nyt", "tweets")
        }

    assert counts == {
        "movies": {"pos": 5241, "neg": 5325},
        "amazon": {"pos": 2113, "neg": 1478},
        "nyt": {"pos": 2176, "neg": 2702},
        "tweets": {"pos": 2822, "neg": 1224},
    }
