"""A UE folder whose checksums are right and whose values are hostile gives one `StorageError` when it is loaded."""

import shutil

import numpy as np
import pytest

from held import forge, forge_arrays, forge_state, seal
from knn_ue.errors import StorageError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.folder import OpenedFolder
from pipelines import N_NEIGHBORS, TEXT, WORDS, fit, said_by_the_model
from tiny_models import N_LAYERS, ROWS

pytestmark = pytest.mark.slow
pytest.importorskip("torch")
pytest.importorskip("transformers")

CALIBRATORS = {
    "temperature": {
        "temperature_": [0, -1.0, 1e-320, float("nan"), float("inf"), "1", None, 10**400],
        "log_scales": [None, [], {"rows": float("nan")}, {"rows": 1e300}, {"rows": "1"}],
    },
    "mahalanobis": {
        "temperature_map_": [
            None,
            {},
            3,
            *({"intercept": value, "slopes": [0.0]} for value in (0, float("nan"), -1.0, 1e-320, None)),
            *({"intercept": 1.0, "slopes": value} for value in ([-1.0], [float("nan")], ["x"], [], 1.0, [1.0] * 9)),
        ],
    },
    "dac": {
        "temperature_map_": [
            {"intercept": 1.0, "slopes": value} for value in ([], [1.0] * 9, [float("nan")] * N_LAYERS)
        ],
        "n_neighbors": [10**9, 0, None],
    },
    "softmax": {"n_classes": [None, 1, 3, 2.0, 10**9], "strange": [1]},
    "knn-ue": {
        "n_neighbors": [0, -1, 10**9, 8.0, None, True],
        "use_labels": [None, 1, "yes"],
        "distance": ["cosine", None, 3],
        "positivity": ["x", None],
        "tau_range": [None, [1], [2, 1], [0, 1], [1, float("nan")]],
        "typical_": [[1.0], [float("nan"), 1.0], "x"],
        "params_": [None, {}, [], 3, {"alpha": 1.0, "tau": 1e-320}],
        "params": [{}, 3],
    },
}
PIPELINE = {
    "task": [None, "text", "ner", "token-classification", 3],
    "class_names": [None, [], ["a"], ["a", "a"], [1, 2], ["a", "b", "c"], "ab", ["other", "names"]],
    "method": [None, "unknown", "dac", 3, ["knn-ue"]],
    "strange": [1],
}
ENCODER = {"options": [None, []], "model": [None, {}, {"name": 3, "commit": None}], "strange": [1]}
OPTIONS = {
    "layer": ["x", 99, 1.5, None],
    "pooling": ["x", 3, []],
    "all_layers": [None, 1],
    "max_length": [0, -1, 10**12, "x"],
    "batch_size": [0, 10**12, None, 1.5],
    "passes": [0, 10**9, None],
    "context_words": [-1, 10**12],
}
THRESHOLD = {
    "n": [0, -1, None, 10**30, 1.5],
    "n_answered": [0, "x", 10**9],
    "n_errors": [-1, 10**9, None],
    "threshold": [-1.0, 2.0, "x", float("nan")],
    "target_risk": [0, 1, None, "x"],
    "delta": [0, 2],
    "bound": [float("nan"), -1, 2],
    "strange": [1],
}


def every(table):
    return [(key, value) for key, values in table.items() for value in values]


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for method in CALIBRATORS:
        pipe = UncertaintyPipeline.from_pretrained(models[TEXT], device="cpu")
        validation = said_by_the_model(pipe, 40, start=100, wrong_every=40)
        pipe.fit(ROWS[TEXT](60), validation, n_neighbors=N_NEIGHBORS, method=method, target_risk=0.5)
        assert pipe.threshold_.found
        pipe.save(folder / method)
    fit(models[WORDS], WORDS, method="knn-ue-entity").save(folder / "words")
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved / "knn-ue", tmp_path / "ue")


def change(folder, part, place, key, value):
    def forged(parts):
        inner = parts[part]["state"]
        for step in place:
            inner = inner[step]
        assert key in inner or key == "strange"
        inner[key] = value

    forge(folder, forged)


def open_whole(folder):
    return UncertaintyPipeline.load(folder, device="cpu")


def is_refused(folder, opened_by=OpenedFolder.open):
    with pytest.raises(StorageError) as error:
        opened_by(folder)
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)


def test_the_folder_opens_as_it_is(folder):
    assert len(UncertaintyPipeline.load(folder, device="cpu")(["a"])) == 1


@pytest.mark.parametrize(("key", "value"), every(PIPELINE))
def test_a_hostile_value_of_the_pipeline_is_refused(folder, key, value):
    change(folder, "", (), key, value)

    is_refused(folder, open_whole)


@pytest.mark.parametrize("kind", ["unknown", None, 3, "../x"])
def test_an_encoder_of_a_kind_that_nobody_knows_is_refused(folder, kind):
    forge(folder, lambda parts: parts["encoder"].update(kind=kind))

    is_refused(folder, open_whole)


@pytest.mark.parametrize("kind", ["unknown", "datastore", None, "temperature"])
def test_a_calibrator_of_another_kind_is_refused(folder, kind):
    forge(folder, lambda parts: parts["calibrator"].update(kind=kind))

    is_refused(folder)


@pytest.mark.parametrize("part", ["encoder", "calibrator", "calibrator/store", "decisions"])
def test_a_folder_without_one_of_its_parts_is_refused(folder, part):
    def change(parts):
        for name in [name for name in parts if name == part or name.startswith(f"{part}/")]:
            del parts[name]

    forge(folder, change)

    is_refused(folder, open_whole)


@pytest.mark.parametrize(("key", "value"), every(ENCODER))
def test_a_hostile_value_of_the_encoder_is_refused(folder, key, value):
    change(folder, "encoder", (), key, value)

    is_refused(folder, open_whole)


@pytest.mark.parametrize(("key", "value"), every(OPTIONS))
def test_a_hostile_option_of_the_encoder_is_refused(folder, key, value):
    change(folder, "encoder", ("options",), key, value)

    is_refused(folder, open_whole)


@pytest.mark.parametrize("value", [None, {}, [None], [{}], [{"kind": None}], [{"kind": "unknown"}], "risk"])
def test_hostile_decisions_are_refused(folder, value):
    change(folder, "decisions", (), "decisions", value)

    is_refused(folder, open_whole)


@pytest.mark.parametrize(("key", "value"), every(THRESHOLD))
def test_a_hostile_value_of_the_threshold_is_refused(folder, key, value):
    change(folder, "decisions", ("decisions", 0), key, value)

    is_refused(folder, open_whole)


@pytest.mark.parametrize(
    ("method", "key", "value"), [(name, *case) for name, table in CALIBRATORS.items() for case in every(table)]
)
def test_a_hostile_value_of_the_calibrator_is_refused(saved, tmp_path, method, key, value):
    folder = shutil.copytree(saved / method, tmp_path / "ue")
    change(folder, "calibrator", (), key, value)

    is_refused(folder)


@pytest.mark.parametrize(
    ("part", "arrays"),
    [
        ("drift", {"distance": np.zeros(100)}),
        ("drift", {"distance": np.full(101, np.nan)}),
        ("drift", {"distance": None}),
        ("drift", {"agreement": np.linspace(1, 0, 101)}),
        ("", {"held_out": np.zeros(40)}),
        ("", {"held_out": None}),
        ("", {"held_out": np.zeros(41, bool)}),
        ("", {"labels": None}),
        ("", {"labels": np.full(40, 9)}),
        ("", {"logits": np.zeros((0, 2), dtype=np.float32)}),
        ("", {"logits": np.full((40, 2), np.nan)}),
        ("", {"features": np.zeros((40, 3), dtype=np.float32)}),
        ("", {"features": None}),
        ("familiarity", {"space.center": None}),
        ("familiarity", {"space.scale": np.zeros(1)}),
    ],
)
def test_hostile_arrays_are_refused(folder, part, arrays):
    forge_arrays(folder, part, **arrays)

    is_refused(folder, open_whole)


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ((), "entities_", {}),
        ((), "rest_weight_", None),
        (("entities_",), "clear_exponent", -1.0),
        (("entities_",), "clear_exponent", 1e300),
        (("entities_",), "exponents", [1.0]),
        (("entities_", "usual"), "distance", 0.0),
        (("entities_", "usual"), "beside", float("nan")),
        (("entities_",), "ingredients", ["type"]),
        (("entities_",), "ingredients", ["type"] * 9),
        (("entities_", "entity"), "slopes", [1.0] * 7),
        (("entities_", "entity"), "scale", [1e-320] * 7),
        (("entities_", "missed", "any_case"), "center", None),
        (("entities_", "missed"), "any_case", None),
        (("entities_", "missed"), "warn_from", 0.0),
        (("entities_", "missed"), "warn_from", 2),
        (("entities_", "missed"), "warn_from", float("nan")),
        (("entities_", "missed"), "warn_from", "0.2"),
    ],
)
def test_a_hostile_value_of_the_entity_model_is_refused(saved, tmp_path, place, key, value):
    folder = shutil.copytree(saved / "words", tmp_path / "ue")
    change(folder, "calibrator", place, key, value)

    is_refused(folder)


def test_a_forged_folder_without_hostile_values_still_says_the_same(folder):
    rows = ROWS[TEXT](3, start=300)
    answers = UncertaintyPipeline.load(folder, device="cpu")(rows)

    seal(folder)
    forge_state(folder, "calibrator", use_labels=True)

    assert UncertaintyPipeline.load(folder, device="cpu")(rows) == answers
