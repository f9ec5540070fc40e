"""The figures show the numbers that the metrics give."""

import io
import subprocess
import sys

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.arrays import softmax
from knn_ue.errors import InvalidInputError, MissingExtraError
from knn_ue.plots import confidence_histogram, reliability_diagram, risk_coverage
from knn_ue.toy import two_blobs

BOTH = (reliability_diagram, risk_coverage)
ALL = (*BOTH, confidence_histogram)


@pytest.fixture(scope="module")
def blobs():
    _, _, test = two_blobs(n_test=2000)
    return {"raw": softmax(test.logits), "calibrated": softmax(test.logits / 3.0)}, test.labels


def texts_of_legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def line_named(axes, name):
    return next(line for line in axes.get_lines() if str(line.get_label()).startswith(name))


@pytest.mark.parametrize("draw", ALL)
def test_a_figure_can_be_written_as_a_picture(draw, blobs):
    file = io.BytesIO()

    draw(*blobs).savefig(file, format="png")

    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("draw", BOTH)
def test_one_array_is_drawn_as_model(draw, blobs):
    probs, labels = blobs

    figure = draw(probs["raw"], labels)

    assert any(text.startswith("model  (") for text in texts_of_legend(figure.axes[0]))


@pytest.mark.slow
@pytest.mark.parametrize("draw", ALL)
def test_one_row_can_be_drawn(draw):
    draw(np.array([[0.2, 0.8]]), np.array([1])).savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("draw", BOTH)
def test_more_methods_than_colors_can_be_drawn(draw, blobs):
    probs, labels = blobs

    figure = draw({f"method {number}": probs["raw"] for number in range(9)}, labels)

    assert len(texts_of_legend(figure.axes[0])) == 10


def test_the_legend_of_the_reliability_diagram_holds_the_calibration_error(blobs):
    probs, labels = blobs
    error = metrics.expected_calibration_error(probs=probs["raw"], labels=labels)

    axes = reliability_diagram(*blobs).axes[0]

    assert f"raw  (ECE {100 * error:.1f} %)" in texts_of_legend(axes)


def test_the_reliability_diagram_draws_the_bins(blobs):
    probs, labels = blobs
    bins = metrics.reliability_bins(probs=probs["calibrated"], labels=labels, n_bins=5)
    filled = bins.count > 0

    line = line_named(reliability_diagram(*blobs, n_bins=5).axes[0], "calibrated")

    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([bins.confidence, bins.accuracy])[filled])


def test_a_bin_with_few_rows_is_hollow():
    confidence = np.array([0.95] * 50 + [0.65] * 3)

    axes = reliability_diagram(np.column_stack([confidence, 1 - confidence]), np.zeros(53, dtype=int)).axes[0]

    assert "hollow: fewer than 20 rows" in texts_of_legend(axes)


def test_under_the_reliability_diagram_each_method_has_all_of_its_rows(blobs):
    bars = reliability_diagram(*blobs).axes[1].containers

    assert [sum(bar.get_height() for bar in method) for method in bars] == pytest.approx([100.0, 100.0])


def test_the_legend_of_the_risk_coverage_curve_holds_its_area(blobs):
    probs, labels = blobs
    area = metrics.aurc(confidence=probs["raw"].max(axis=1), correct=probs["raw"].argmax(axis=1) == labels)

    axes = risk_coverage(*blobs).axes[0]

    assert f"raw  (AURC {1000 * area:.1f})" in texts_of_legend(axes)


@pytest.mark.parametrize("name", ["raw", "perfect"])
def test_every_risk_coverage_curve_ends_at_the_error_rate(name, blobs):
    probs, labels = blobs
    error_rate = np.mean(probs["raw"].argmax(axis=1) != labels)

    line = line_named(risk_coverage(*blobs).axes[0], name)

    np.testing.assert_allclose(line.get_xydata()[-1], [100.0, 100 * error_rate])


def test_the_perfect_ranking_is_never_above_a_real_one(blobs):
    axes = risk_coverage(*blobs).axes[0]

    assert (line_named(axes, "perfect").get_ydata() <= line_named(axes, "calibrated").get_ydata() + 1e-9).all()


def test_a_curve_of_many_rows_is_drawn_with_few_points():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, size=200_000)

    axes = risk_coverage(np.column_stack([confidence, 1 - confidence]), rng.integers(2, size=200_000)).axes[0]

    assert all(len(line.get_xdata()) <= 400 for line in axes.get_lines())


@pytest.mark.parametrize("draw", ALL)
def test_nothing_to_draw_is_refused(draw):
    with pytest.raises(InvalidInputError, match="nothing to draw"):
        draw({}, np.array([0]))


@pytest.mark.parametrize("draw", ALL)
def test_logits_are_refused(draw, blobs):
    with pytest.raises(InvalidInputError, match="pass probabilities, not logits"):
        draw(np.array([[-1.0, 2.0]]), np.array([1]))


@pytest.mark.parametrize("draw", ALL)
def test_without_matplotlib_the_extra_is_named(draw, blobs, monkeypatch):
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=r'pip install "knn-ue\[plots\]"'):
        draw(*blobs)


@pytest.mark.slow
def test_drawing_leaves_no_global_state_of_pyplot_behind():
    code = (
        "import sys, numpy as np\n"
        "from knn_ue.plots import reliability_diagram\n"
        "reliability_diagram(np.array([[0.2, 0.8]]), np.array([1]))\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "False"


def heights(figure, name):
    bars = next(x for x in figure.axes[0].containers if x.get_label() == name)
    return [bar.get_height() for bar in bars]


@pytest.mark.parametrize(("name", "expected"), [("right", [0, 0, 25, 50]), ("wrong", [0, 0, 0, 25])])
def test_the_histogram_counts_right_and_wrong_answers_apart(name, expected):
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.95, 0.05], [0.4, 0.6]])

    figure = confidence_histogram(probs, np.array([0, 0, 1, 1]), n_bins=4)

    assert heights(figure, name) == expected


def test_the_histogram_has_a_panel_for_each_method(blobs):
    figure = confidence_histogram(*blobs)

    assert [axes.get_title(loc="left") for axes in figure.axes] == ["raw", "calibrated"]


def test_the_histogram_of_rows_without_labels_has_them_all(blobs):
    probs, _ = blobs

    figure = confidence_histogram(probs, None)

    assert sum(heights(figure, "no labels")) == pytest.approx(100.0)


def test_the_answers_may_be_others_than_the_most_probable_classes():
    probs = np.tile([[0.3, 0.7]], (40, 1))
    labels, predicted = np.repeat([0, 1], [30, 10]), np.zeros(40, dtype=int)

    reliability = reliability_diagram(probs, labels, predicted=predicted).axes[0]
    risk = risk_coverage(probs, labels, predicted=predicted).axes[0]
    histogram = confidence_histogram(probs, labels, n_bins=10, predicted=predicted).axes[0]

    assert "model  (ECE 45.0 %)" in [line.get_label() for line in reliability.lines]
    assert risk.lines[0].get_ydata()[-1] == pytest.approx(25.0)
    assert [round(sum(bar.get_height() for bar in bars)) for bars in histogram.containers] == [75, 25]


def bar_heights(axes):
    return [bar.get_height() for bar in axes.patches]


def test_weighted_rows_are_binned_like_repeated_ones(blobs):
    probs, labels, weights = blobs[0]["raw"], blobs[1], np.arange(2000) % 3

    found = reliability_diagram(probs, labels, sample_weight=weights)
    repeated = reliability_diagram(np.repeat(probs, weights, axis=0), np.repeat(labels, weights))

    assert texts_of_legend(found.axes[0])[:2] == texts_of_legend(repeated.axes[0])[:2]
    np.testing.assert_allclose(bar_heights(found.axes[1]), bar_heights(repeated.axes[1]))


def test_a_bin_of_few_rows_is_hollow_whatever_they_count():
    confidence = np.array([0.95] * 50 + [0.65] * 3)
    probs = np.column_stack([confidence, 1 - confidence])

    axes = reliability_diagram(probs, np.zeros(53, dtype=int), sample_weight=np.full(53, 100.0)).axes[0]

    assert "hollow: fewer than 20 rows" in texts_of_legend(axes)


def test_a_weighted_histogram_is_that_of_repeated_rows(blobs):
    probs, labels, weights = blobs[0]["raw"], blobs[1], np.arange(2000) % 3

    found = confidence_histogram(probs, labels, sample_weight=weights).axes[0]

    repeated = confidence_histogram(np.repeat(probs, weights, axis=0), np.repeat(labels, weights)).axes[0]
    np.testing.assert_allclose(bar_heights(found), bar_heights(repeated))


@pytest.mark.parametrize("name", ["model", "perfect"])
def test_a_weighted_risk_coverage_curve_ends_at_the_weighted_error_rate(name, blobs):
    probs, labels, weights = blobs[0]["raw"], blobs[1], np.arange(2000) % 3
    error_rate = np.average(probs.argmax(axis=1) != labels, weights=weights)

    line = line_named(risk_coverage(probs, labels, sample_weight=weights).axes[0], name)

    np.testing.assert_allclose(line.get_xydata()[-1], [100.0, 100 * error_rate])


@pytest.mark.parametrize("draw", ALL)
def test_a_figure_refuses_weights_of_other_rows(draw, blobs):
    with pytest.raises(InvalidInputError, match="sample_weight has 3 rows but 2000 are expected"):
        draw(blobs[0]["raw"], blobs[1], sample_weight=np.ones(3))
