"""An index that cannot be built or saved is refused before the model runs."""

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import IndexOptions
from pipelines import N_NEIGHBORS, TEXT
from tiny_models import ROWS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("method", ["knn-ue", "dac"])
@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("Nonsense", "a faiss factory string for [0-9]+ columns, got 'Nonsense'"),
        ("LSH", "a faiss IndexLSH cannot be saved"),
        (IndexOptions(factory="SQ8", n_probe=2), "n_probe=2 has no effect on 'SQ8'"),
    ],
    ids=str,
)
def test_it_is_refused_before_the_model_runs(method, index, words, models, monkeypatch):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    def run(*_, **__):
        raise AssertionError("the model ran")

    monkeypatch.setattr(type(pipe.encoder.model), "forward", run)

    with pytest.raises(InvalidInputError, match=words):
        pipe.fit(ROWS[TEXT](20), ROWS[TEXT](20, start=100), method=method, index=index, n_neighbors=N_NEIGHBORS)
