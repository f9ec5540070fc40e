"""The study of open models on made-up answers: what is measured, and the page of it."""

import numpy as np

from knn_ue_lab.reproduce import texts_study
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.kept_answers import pack
from knn_ue_lab.reproduce.scales import SMALL
from knn_ue_lab.reproduce.texts_study import Read, World, measure
from knn_ue_lab.reproduce.texts_study_page import page


def made_up(n_rows, *, seed):
    """Return vectors that show the class, and answers that are right on seven of ten rows with a blind confidence."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=n_rows)
    vectors = rng.normal(size=(n_rows, 6)) + np.outer(3.0 * gold, np.eye(6)[0])
    answers = np.where(rng.random(n_rows) < 0.7, gold, 1 - gold)
    confidence = rng.uniform(0.5, 1.0, size=n_rows)
    probs = np.where(np.eye(2)[answers] > 0, confidence[:, None], 1 - confidence[:, None])
    kept = Answers(confidence=confidence, group=np.arange(n_rows), correct=answers == gold, probs=probs, labels=gold)
    return {"embedding": vectors}, gold, kept


def test_a_reader_that_sees_the_class_ranks_better_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(texts_study, "N_DRAWS", 1)
    train, gold, _ = made_up(200, seed=0)
    sets = {name: made_up(300, seed=seed) for seed, name in enumerate(("home", "away"), start=1)}
    folder = tmp_path / "made/up"
    folder.mkdir(parents=True)
    for method in texts_study.METHODS:
        columns = {f"{name}/{column}": x for name, (_, _, kept) in sets.items() for column, x in pack(kept).items()}
        np.savez(folder / f"{method}.seed0.key.npz", **columns)
    world = World(folder="made/up", judged="a model", scale=SMALL, n_seeds=1)
    read = Read(train=train, gold=gold, sets={name: views for name, (views, _, _) in sets.items()}, n_classes=2)

    found = measure(world, tmp_path, read, "home")

    for name in sets:
        assert found[name]["temperature + verifier"][0][0] < 0.5 * found[name]["temperature"][0][0]
    assert "temperature, 50 labels" in found["away"] and "temperature, 50 labels" not in found["home"]
    text = page([("a model", 1, "bge-small", found)])
    assert "| temperature + verifier |" in text and "a model: " in text
