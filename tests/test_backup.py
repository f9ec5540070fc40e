"""`knn-ue backup`: a copy that opens and is complete, whatever is done to the folder meanwhile."""

import json
import threading

import pytest

from cli_files import run
from held import fitted_in
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import compact_folder
from pipelines import TEXT, fit
from tiny_models import ROWS, save_tiny_model


@pytest.fixture
def ue(tmp_path):
    fit(save_tiny_model(tmp_path / "model", family="bert", task=TEXT), TEXT, index="exact").save(tmp_path / "ue")
    return tmp_path / "ue"


def texts_in(folder):
    store = UncertaintyPipeline.load(folder, device="cpu").calibrator_.store
    return dict(zip(store.ids.tolist(), store.texts_of(store.ids), strict=True))


def test_a_backup_taken_while_a_server_learns_holds_all_that_was_acknowledged_before_it(ue, tmp_path):
    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    acknowledged: list[str] = []
    stop = threading.Event()

    def learn(client):
        while not stop.is_set():
            text = f"step {len(acknowledged)}"
            body = {"examples": [{"text": text, "label": "pos"}]}
            assert client.post("/examples", json=body).status_code == 201
            acknowledged.append(text)
            if len(acknowledged) % 10 == 0:
                compact_folder(ue)

    with TestClient(create_app(ue, ServeOptions(device="cpu")), base_url="http://127.0.0.1") as client:
        thread = threading.Thread(target=learn, args=(client,))
        thread.start()
        try:
            before = []
            for number in range(6):
                while len(acknowledged) < 5 * number:
                    assert thread.is_alive()
                    threading.Event().wait(0.01)
                before.append(list(acknowledged))
                assert run("backup", ue, tmp_path / f"backup{number}").exit_code == 0
        finally:
            stop.set()
            thread.join()

    for number, expected in enumerate(before):
        found = list(texts_in(tmp_path / f"backup{number}").values())[60:]
        assert found[: len(expected)] == expected  # nothing missing, and none of it in part
        assert found == acknowledged[: len(found)]


def test_a_backup_has_domains_and_goes_its_own_way(ue, tmp_path):
    pipe = UncertaintyPipeline.load(ue, device="cpu")
    pipe.adapt(ROWS[TEXT](20, start=300), domain="reviews", force=True)
    pipe.save(ue)

    found = json.loads(run("backup", ue, tmp_path / "copy", "--json").output)
    copy = UncertaintyPipeline.load(tmp_path / "copy", device="cpu")
    copy.opened.edit(lambda now: (now, now.calibrator.stores["store"].remove([3])))

    assert found["backup"].endswith("copy") and list(copy.domains_) == ["reviews"]
    assert copy("a fine film", domain="reviews")[0].score != copy("a fine film")[0].score
    assert len(texts_in(tmp_path / "copy")) == 59 and len(texts_in(ue)) == 60


def test_what_is_no_folder_or_is_damaged_leaves_no_backup(ue, tmp_path):
    taken = run("backup", ue, ue)
    nothing = run("backup", tmp_path / "nothing", tmp_path / "copy")
    (fitted_in(ue) / "arrays.safetensors").write_bytes(b"damaged")
    damaged = run("backup", ue, tmp_path / "copy")

    assert "exists already: choose a new folder" in taken.output and "does not exist" in nothing.output
    assert "damaged" in damaged.output
    assert [one.exit_code for one in (taken, nothing, damaged)] == [1, 1, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "ue"]


def test_a_link_in_a_folder_is_not_followed(ue, tmp_path):
    (fitted_in(ue) / "endless").symlink_to("/dev/zero")

    assert run("backup", ue, tmp_path / "copy").exit_code == 1
    assert not (tmp_path / "copy").exists()
