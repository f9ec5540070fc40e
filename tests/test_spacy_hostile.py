"""Whatever is in the component's folder, it loads as it was saved or is refused in one sentence; nothing is pickled."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

spacy = pytest.importorskip("spacy")

from held import forge  # noqa: E402
from knn_ue.errors import InvalidInputError, KnnUeError, StorageError  # noqa: E402
from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
TEXT = "Ada Turing met Zorbl in Oslo today."


@pytest.fixture(scope="module")
def nlp():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": {"PERSON": "PER", "GPE": "LOC"}})
    component.fit(examples(nlp, 60, seed=1), examples(nlp, 60, seed=2))
    component.add(component(nlp.make_doc("Ada met Oslo")))  # so that there is a journal
    return nlp


@pytest.fixture(scope="module")
def saved(nlp, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "pipeline"
    nlp.to_disk(path)
    return path


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved / "knn_ue_entities", tmp_path / "knn_ue_entities"))


def opened(nlp, folder):
    """Return a new component of the same pipeline with what the folder holds."""
    return type(nlp.get_pipe("knn_ue_entities"))(nlp).from_disk(folder)


def refused(nlp, folder, *kinds):
    with pytest.raises(kinds or KnnUeError) as error:
        opened(nlp, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_no_file_is_a_pickle(saved):
    assert {path.suffix for path in files(saved / "knn_ue_entities")} <= {".json", ".safetensors", ".db", ".db-journal"}


def test_every_missing_file_is_named(nlp, saved, tmp_path):
    needed = [name for name in files(saved / "knn_ue_entities") if name.suffix != ".db-journal"]
    for number, name in enumerate(needed):
        folder = Path(shutil.copytree(saved / "knn_ue_entities", tmp_path / str(number)))
        (folder / name).unlink()

        assert name.name in refused(nlp, folder, StorageError)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_or_a_cut_is_noticed(nlp, saved, tmp_path, data):
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved / "knn_ue_entities", folder)
    name = data.draw(st.sampled_from([name for name in files(folder) if (folder / name).stat().st_size]))
    content = bytearray((folder / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        content = content[:place]
    (folder / name).write_bytes(content)

    try:
        component = opened(nlp, folder)
    except KnnUeError as error:
        assert "\n" not in str(error)
        return

    assert name.name == "changes.db"  # a page, or a part of one, that holds nothing
    doc = component(nlp(TEXT, disable=["knn_ue_entities"]))
    assert [ent._.confidence for ent in doc.ents]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("types", None),
        ("types", "LOC"),
        ("types", []),
        ("types", ["LOC", "LOC"]),
        ("types", [1, 2]),
        ("types", ["PER", "LOC", "ORG"]),
        ("renamed", None),
        ("renamed", ["PERSON"]),
        ("renamed", {"PERSON": 1}),
        ("source", 3),
        ("source", None),
        ("source", "../../ner"),
        ("source", "knn_ue_entities"),
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", "64"),
        ("batch_size", True),
        ("batch_size", 10**12),
        ("kind", "huggingface"),
        ("kind", None),
        ("surprise", 1),
    ],
    ids=str,
)
def test_a_hostile_value_of_the_encoder_is_refused(nlp, folder, key, value):
    forge(folder, lambda parts: (parts["encoder"] if key == "kind" else parts["encoder"]["state"]).update({key: value}))

    refused(nlp, folder, StorageError, InvalidInputError)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ridge", 0.0),
        ("ridge", -1.0),
        ("ridge", "1"),
        ("ridge", 1e300),
        ("n_neighbors", 0),
        ("n_neighbors", 1 << 40),
        ("entities_", {"ingredients": ["type"]}),
    ],
    ids=str,
)
def test_a_hostile_value_of_the_calibrator_is_refused(nlp, folder, key, value):
    forge(folder, lambda parts: parts["calibrator"]["state"].update({key: value}))

    refused(nlp, folder, StorageError)


def test_a_pipeline_without_its_recognizer_is_refused(saved):
    with pytest.raises(InvalidInputError, match="no component 'ner'"):
        spacy.load(saved, exclude=["ner"])


def test_a_recognizer_of_other_types_is_refused(nlp, saved, tmp_path):
    other = trained_pipeline()
    other.get_pipe("ner").add_label("DATE")
    component = other.add_pipe("knn_ue_entities")

    component.from_disk(saved / "knn_ue_entities")  # one more type has no score, and that is all

    assert all(ent._.confidence is not None for ent in component(other(TEXT, disable=["knn_ue_entities"])).ents)
