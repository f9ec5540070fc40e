"""What save accepts, load accepts: any value is refused in one sentence, or written and read back equal."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from knn_ue.decisions.contract import Scored
from knn_ue.decisions.registry import DECISIONS, decision_from_plain, decision_to_plain
from knn_ue.errors import InvalidInputError, KnnUeError
from knn_ue.folder.tensors import valid_unicode
from knn_ue.methods import METHODS, load_calibrator, make_calibrator
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.toy import given_answers
from knn_ue.training.method import TrainingMethod
from knn_ue.types import Outputs

EDGES = [0.0, 1e-320, 1e-300, 1e-100, 1e-20, 1e-15, 1e-6, 0.5, 1.0, 1e3, 1e9, 1e15, 1e18, 3e18, 1e20, 1e38, 1e50, 1e300]
NUMBERS = st.sampled_from([*EDGES, *(-edge for edge in EDGES), float("nan"), float("inf")])
SHARES = st.sampled_from([1e-10, 1e-9, 0.05, 0.5, 1 - 1e-9, 1 - 1e-10]) | NUMBERS
COUNTS = st.sampled_from(
    [-1, 0, 1, 2, 3, 5, 64, 65_535, 65_536, 65_537, 2**20, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**64]
)
LABELS = st.sampled_from([-1, 0, 1, 2, 2**20 - 1, 2**20, 2**31, 2**40, 2**62, 2**63 - 1])
TEXTS = st.sampled_from(["", "a", "a\x00b", "\ud800", "x\udfff", "é👩‍🔬", "\u2028\n", "\x85", "a" * 5000]) | st.text(
    max_size=8
)
RUN = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def one_sentence(error):
    assert "\n" not in str(error)
    assert 10 < len(str(error)) < 800
    event(str(error)[:50])


def arrays(draw, n_rows, n_columns):
    """Return a matrix of which most is ordinary."""
    ordinary = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n_rows, n_columns))
    values = ordinary * draw(st.just(1.0) | st.sampled_from(EDGES))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        values[draw(st.integers(0, n_rows - 1)), draw(st.integers(0, n_columns - 1))] = draw(NUMBERS)
    return values


# --- stores -------------------------------------------------------------------------------------------------------


def rows_of(draw, n_rows):
    few = [number % 3 for number in range(n_rows)]
    labels = draw(st.just(few) | st.lists(LABELS, min_size=n_rows, max_size=n_rows))
    texts = draw(st.none() | st.lists(TEXTS, min_size=n_rows, max_size=n_rows))
    return arrays(draw, n_rows, 4), labels, texts


def same_rows(store, other):
    assert store.ids.tolist() == other.ids.tolist()
    assert store.texts_of(store.ids) == other.texts_of(other.ids)
    assert store.options == other.options
    assert found_by(store) == found_by(other)


def found_by(store):
    try:
        found = store.search(np.ones((1, 4)), len(store) + 1)
    except KnnUeError as error:  # the store holds vectors of another magnitude
        return str(error)
    return found.ids.tolist(), found.distances.tolist(), found.labels.tolist()


@settings(RUN, max_examples=150)
@given(data=st.data())
def test_a_store_of_any_rows_is_refused_or_reopened_equal_after_every_change(tmp_path_factory, data):
    draw, path = data.draw, tmp_path_factory.mktemp("store") / "store"
    try:
        features, labels, texts = rows_of(draw, 20)
        options = {"normalize": draw(st.sampled_from(["none", "l2", "standardize"]))}
        options["index"] = draw(st.sampled_from(["exact", "auto", "IVF2,Flat", "PQ2x4", "HNSW4", "PCA2,SQ8"]))
        store = Datastore.build(features, labels, texts=texts, **options)
        store.save(path)
    except KnnUeError as error:
        one_sentence(error)
        return
    event("accepted")

    opened = Datastore.load(path)
    same_rows(opened, store)
    for _ in range(2):
        try:
            features, labels, texts = rows_of(draw, 3)
            ids = opened.add(features, labels, texts=texts)
        except KnnUeError as error:
            one_sentence(error)
        else:
            assert texts is None or opened.texts_of(ids) == [valid_unicode(text) for text in texts]
        same_rows(Datastore.load(path), opened)
    opened.remove(opened.ids[:: draw(st.integers(1, 3))])
    same_rows(Datastore.load(path), opened)
    opened.compact()
    same_rows(Datastore.load(path), opened)


@settings(RUN, max_examples=100)
@given(
    factory=st.sampled_from(["Flat", "IVF2,Flat", "HNSW4", "PCA2,Flat", "PQ2x4", "IVF2,SQ8,RFlat", "SQfp16"]),
    numbers=st.tuples(st.none() | COUNTS, st.none() | COUNTS, st.just(1) | COUNTS),
    recompute=st.booleans(),
    keep_vectors=st.booleans(),
)
def test_an_index_with_any_options_is_refused_or_reopened_equal(
    tmp_path_factory, factory, numbers, recompute, keep_vectors
):
    path = tmp_path_factory.mktemp("index") / "store"
    names = ("n_probe", "ef_search", "refine_factor")
    try:
        options = IndexOptions(factory=factory, recompute=recompute, **dict(zip(names, numbers, strict=True)))
        features = np.random.default_rng(0).normal(size=(20, 4))
        store = Datastore.build(features, [0, 1] * 10, index=options, keep_vectors=keep_vectors)
        store.save(path)
    except KnnUeError as error:
        one_sentence(error)
        return
    event("accepted")

    same_rows(Datastore.load(path), store)


# --- calibrators --------------------------------------------------------------------------------------------------

SLOW = ("density-softmax", "verdict", "span-verdict", "sdm")  # train a net each time, or need more rows
CHEAP = [name for name in METHODS if METHODS[name].training is TrainingMethod and name not in SLOW]


def outputs_of(draw, n_rows, n_classes):
    layers = draw(st.none() | st.just([arrays(draw, n_rows, 3) for _ in range(2)]))
    return Outputs(
        logits=arrays(draw, n_rows, n_classes),
        features=arrays(draw, n_rows, 4),
        labels=np.arange(n_rows) % n_classes,
        layers=layers,
        texts=[f"text {number}" for number in range(n_rows)],
        class_names=draw(st.none() | st.lists(TEXTS, min_size=n_classes, max_size=n_classes, unique=True)),
    )


@pytest.mark.parametrize("name", CHEAP)
@settings(RUN, max_examples=30)
@given(data=st.data())
def test_a_calibrator_fitted_on_any_outputs_is_refused_or_reopened_with_equal_scores(tmp_path_factory, name, data):
    path = tmp_path_factory.mktemp("calibrator") / "ue"
    try:
        train, validation = (outputs_of(data.draw, 20, 3) for _ in range(2))
        n_neighbors = data.draw(st.sampled_from([1, 5, 20, 21]))
        calibrator = make_calibrator(name, train, n_neighbors=n_neighbors).fit(validation)
        scale = data.draw(NUMBERS)
        if scale:
            calibrator = calibrator.with_log_scales({"rows": scale})
        calibrator.save(path)
    except KnnUeError as error:
        one_sentence(error)
        return
    event("accepted")

    loaded = load_calibrator(path)

    np.testing.assert_array_equal(loaded.predict_proba(validation), calibrator.predict_proba(validation))


# --- decisions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DECISIONS)
@settings(RUN, max_examples=100)
@given(data=st.data())
def test_a_decision_with_any_options_is_refused_or_read_back_equal(kind, data):
    draw, n_rows = data.draw, data.draw(st.sampled_from([0, 1, 2, 40]))
    probs = np.random.default_rng(draw(st.integers(0, 99))).dirichlet([1, 1], size=n_rows)
    labels = np.random.default_rng(0).integers(0, 2, n_rows)
    held_out = Scored(
        confidence=probs.max(axis=1, initial=0.5),
        class_names=("a", draw(TEXTS)),
        probs=probs,
        predicted=probs.argmax(axis=1),
        correct=probs.argmax(axis=1) == labels,
        labels=labels,
        others=None,
    )
    names = {"risk": ("target_risk", "delta"), "set": ("coverage",)}.get(kind, ())
    try:
        decision = DECISIONS[kind](**{name: draw(SHARES) for name in names})
        decision = decision.fit(replace(held_out, others=draw(st.none() | st.just(held_out))))
        plain = decision_to_plain(decision)
    except KnnUeError as error:
        one_sentence(error)
        return
    event("accepted")

    assert decision_to_plain(decision_from_plain(plain)) == plain


# --- whole folders ------------------------------------------------------------------------------------------------


def answered(n_rows, seed):
    outputs = given_answers(n_labeled=n_rows, n_test=2, seed=seed)[0]
    names = outputs.class_names
    rows = zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
    return [{"text": text, "answer": names[answer], "label": names[label]} for text, answer, label in rows]


ROWS = answered(120, 2)


@settings(RUN, max_examples=25)
@given(data=st.data())
def test_a_pipeline_of_any_rows_is_refused_or_reopened_with_equal_answers(tmp_path_factory, data):
    draw, path = data.draw, tmp_path_factory.mktemp("pipeline") / "ue"
    rows = [dict(row) for row in ROWS]
    for _ in range(draw(st.integers(0, 2))):
        row = rows[draw(st.integers(0, len(rows) - 1))]
        row[draw(st.sampled_from(["text", "text", "answer", "label"]))] = draw(TEXTS)
    if draw(st.booleans()):
        rows = [row | {"confidence": draw(st.sampled_from([0.0, 1e-320, 0.5, 1.0]))} for row in rows]
    try:
        pipe = UncertaintyPipeline.from_answers(reader="instant").fit(rows)
        pipe.save(path)
    except KnnUeError as error:
        one_sentence(error)
        return
    event("accepted")

    loaded = UncertaintyPipeline.load(path)

    asked = [{"text": row["text"], "answer": row["answer"]} for row in ROWS[:5]]
    assert loaded(asked) == pipe(asked)
    assert loaded.promises == pipe.promises


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("adapted") / "ue"
    UncertaintyPipeline.from_answers(reader="instant").fit(ROWS).save(path)
    return path


@settings(RUN, max_examples=40)
@given(data=st.data())
def test_a_domain_of_any_labels_is_refused_or_read_back_and_the_folder_opens_either_way(saved, data):
    draw = data.draw
    pipe = UncertaintyPipeline.load(saved)
    rows = [dict(row) for row in answered(draw(st.sampled_from([1, 2, 12, 30])), 5)]
    for _ in range(draw(st.integers(0, 2))):
        row = rows[draw(st.integers(0, len(rows) - 1))]
        row[draw(st.sampled_from(["text", "text", "answer", "label"]))] = draw(TEXTS)
    weight = draw(st.sampled_from([st.just(1.0), st.sampled_from([1e-100, 1.0, 1e100]), NUMBERS]))
    weights = [draw(weight) for _ in rows]
    name = draw(
        st.sampled_from(["default", "a.b c-d_e", "x" * 64, "x" * 65, "general", "", "a/b", "\ud800", "a\n", "é"])
    )
    try:
        pipe.adapt(rows, domain=name, sample_weight=weights, force=draw(st.booleans()))
        pipe.save(saved)
    except KnnUeError as error:
        one_sentence(error)

    now = UncertaintyPipeline.load(saved)
    asked = [
        {"text": row["text"], "answer": row["answer"], "domain": known} for row in ROWS[:2] for known in now.domains_
    ]
    if name in pipe.domains_ and name in now.domains_:
        assert now.domains_[name] == pipe.domains_[name]
        assert now(asked) == pipe(asked)


# --- values that once ended a folder ------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1e101, 1e-101, 0.0, -1.0, float("nan"), float("inf")])
def test_a_sample_weight_that_could_not_be_read_back_is_refused_and_the_folder_opens(saved, weight):
    pipe = UncertaintyPipeline.load(saved)
    rows = [row | {"sample_weight": weight} for row in answered(20, 7)]

    with pytest.raises(InvalidInputError, match="sample"):
        pipe.adapt(rows, domain="tweets", force=True)

    pipe.save(saved)
    assert "tweets" not in UncertaintyPipeline.load(saved).domains_


@pytest.mark.parametrize("weight", [1e100, 1e-100])
def test_a_sample_weight_at_the_limit_is_read_back(saved, weight):
    pipe = UncertaintyPipeline.load(saved)
    pipe.adapt([row | {"sample_weight": weight} for row in answered(20, 7)], domain="limit", force=True)
    pipe.save(saved)

    assert UncertaintyPipeline.load(saved).domains_["limit"] == pipe.domains_["limit"]


def test_thousands_of_domains_are_read_back(saved, tmp_path):
    pipe = UncertaintyPipeline.load(saved)
    pipe.adapt(answered(12, 7), domain="one", force=True)
    one = pipe.fitted_.domains["one"]
    pipe.fitted_ = replace(pipe.fitted_, domains={f"customer-{number:06d}": one for number in range(2500)})
    pipe.save(tmp_path / "ue")

    assert len(UncertaintyPipeline.load(tmp_path / "ue").domains_) == 2500


def test_a_label_beyond_all_classes_is_refused_by_a_store_that_goes_on(tmp_path):
    Datastore.build(np.eye(4), [0, 1, 0, 1]).save(tmp_path)
    store = Datastore.load(tmp_path)

    with pytest.raises(InvalidInputError, match="labels must be below 1048576, got 2097152: number the classes from 0"):
        store.add(np.ones((1, 4)), [1 << 21])

    store.compact()
    assert len(Datastore.load(tmp_path)) == 4


def test_a_class_name_that_is_half_a_character_is_refused_before_the_fit():
    with pytest.raises(InvalidInputError, match=r"class_names must be valid Unicode, got .*: rename the class"):
        Outputs(logits=np.eye(2), class_names=["neg", "\ud800"])


@pytest.mark.parametrize("options", [{"batch_size": 100_000}, {"max_length": 1 << 21}, {"batch_size": 0}])
def test_options_of_a_prompted_model_that_could_not_be_read_back_are_refused(options):
    pytest.importorskip("torch")
    from knn_ue.encoding.causal import PromptOptions

    with pytest.raises(InvalidInputError, match=f"{next(iter(options))} must be"):
        PromptOptions(**options)
