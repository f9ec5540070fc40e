"""A whole UE folder is swapped under a running server: no request fails, and what is broken does not take over."""

import threading

import pytest

from held import fitted_in
from pipelines import TEXT, WORDS, fit
from serving_checks import TEXT_ROW, add, nearest, stored_texts


@pytest.mark.slow
def test_a_whole_folder_is_swapped_without_a_failed_request(folders, folder, client_of, tmp_path):
    old, new = folder(name="old"), folder(name="new")
    add(client_of(new), TEXT_ROW)
    current = tmp_path / "current"
    current.symlink_to(old)
    client = client_of(current)
    statuses, seen, stop = [], set(), threading.Event()

    def ask():
        while not stop.is_set():
            found = client.post("/predict", json={"inputs": TEXT_ROW["text"], "top": 1})
            statuses.append(found.status_code)
            seen.add(found.json()["answers"][0]["neighbors"][0]["id"])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        link = tmp_path / "link"
        link.symlink_to(new)
        link.replace(current)
        assert client.post("/reload").json()["changed"]
        assert nearest(client, TEXT_ROW["text"])[0]["id"] == 60
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert set(statuses) == {200} and len(statuses) > 3
    assert not client.post("/reload").json()["changed"]


def test_a_broken_folder_does_not_take_over(folder, client_of, tmp_path):
    path, broken = folder(), folder(name="broken")
    (fitted_in(broken) / "arrays.safetensors").write_bytes(b"damaged")
    current = tmp_path / "current"
    current.symlink_to(path)
    client = client_of(current)
    before = client.post("/predict", json={"inputs": "a film"}).json()
    current.unlink()
    current.symlink_to(broken)

    found = client.post("/reload")

    assert found.status_code == 503 and "damaged" in found.json()["error"]
    assert client.post("/predict", json={"inputs": "a film"}).json() == before
    assert "damaged" in client.get("/info").json()["reload_error"]


@pytest.mark.slow
def test_a_folder_of_another_task_does_not_take_over(folder, folders, client_of, tmp_path):
    current = tmp_path / "current"
    current.symlink_to(folder())
    client = client_of(current)
    current.unlink()
    current.symlink_to(folders(WORDS))

    found = client.post("/reload")

    assert found.status_code == 422 and "start another server" in found.json()["error"]
    assert client.post("/predict", json={"inputs": "a film"}).status_code == 200


@pytest.mark.slow
def test_an_example_encoded_by_a_model_that_was_swapped_is_encoded_again(folder, client_of, tmp_path, monkeypatch):
    from knn_ue.serving.work.writer import FolderWriter
    from tiny_models import save_tiny_model

    other = tmp_path / "other"
    model = save_tiny_model(tmp_path / "model", family="bert", task=TEXT, seed=5)
    fit(model, TEXT, index="exact").save(other)
    current = tmp_path / "current"
    current.symlink_to(folder())
    client = client_of(current)
    learn_once = FolderWriter._learn

    def swap_first(keeper, encoded, *more):
        if keeper.served is encoded and not current.readlink().samefile(other):
            current.unlink()
            current.symlink_to(other)
            keeper._load()
        return learn_once(keeper, encoded, *more)

    monkeypatch.setattr(FolderWriter, "_learn", swap_first)

    added = add(client, TEXT_ROW)

    assert added["ids"] == [[60]] and stored_texts(other)[60] == TEXT_ROW["text"]
    (near,) = nearest(client, TEXT_ROW["text"])
    assert near["id"] == 60 and near["distance"] == pytest.approx(0, abs=1e-4)
