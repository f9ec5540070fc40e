"""Any history of two writers of one store: what was acknowledged is there however one looks, and no id comes twice."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from knn_ue.errors import InvalidInputError, StaleFolderError
from knn_ue.folder import copy_folder
from knn_ue.folder import live as live_module
from knn_ue.stores import Datastore, IndexOptions

WHO = st.integers(0, 1)
CODES = IndexOptions(factory="PCA2,Flat", recompute=False)


class Histories(RuleBasedStateMachine):
    """`rows` is what the store must hold: label, text and vector by id; `used` are all ids that were ever given."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "store"
        self.n_copies = 0

    @initialize(keep_vectors=st.booleans())
    def build(self, keep_vectors):
        features = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
        self.keeps = keep_vectors
        Datastore.build(
            features,
            range(6),
            texts=[f"text {number}" for number in range(6)],
            index="exact" if keep_vectors else CODES,
            keep_vectors=keep_vectors,
        ).save(self.path)
        self.rows = {number: (number, f"text {number}") for number in range(6)}
        self.used = set(self.rows)
        self.stores = [Datastore.load(self.path), Datastore.load(self.path)]

    def changed(self, who, change):
        """Let one of them change the store, after opening it again where the other one replaced what was fitted."""
        try:
            return change(self.stores[who])
        except StaleFolderError:
            self.stores[who] = Datastore.load(self.path)
            return change(self.stores[who])

    @rule(who=WHO, labels=st.lists(st.integers(0, 9), min_size=1, max_size=3), text=st.text(max_size=3))
    def add(self, who, labels, text):
        texts = [f"{text} {label}".encode(errors="replace").decode() for label in labels]
        vectors = np.arange(3 * len(labels), dtype=np.float32).reshape(-1, 3) + 1
        ids = self.changed(who, lambda store: store.add(vectors, labels, texts=texts)).tolist()

        assert not self.used & set(ids)
        assert min(ids) > max(self.used)
        self.used |= set(ids)
        self.rows |= dict(zip(ids, zip(labels, texts, strict=True), strict=True))

    @rule(who=WHO, data=st.data())
    def remove(self, who, data):
        gone = data.draw(st.lists(st.sampled_from(sorted(self.used)), min_size=1, max_size=3, unique=True))
        try:
            self.changed(who, lambda store: store.remove(gone))
        except InvalidInputError:
            assert not set(gone) <= self.rows.keys()
        else:
            for number in gone:
                del self.rows[number]

    @rule(who=WHO)
    def fails_amid_an_add(self, who):
        def fail(*_):
            raise KeyboardInterrupt

        transaction = live_module.Transaction
        insert, transaction.insert = transaction.insert, fail
        try:
            self.changed(who, lambda store: store.add(np.ones((1, 3)), [1]))
        except KeyboardInterrupt:
            pass
        finally:
            transaction.insert = insert

    @rule(who=WHO)
    def compact(self, who):
        if self.keeps:
            self.changed(who, lambda store: store.compact())

    @rule(who=WHO)
    def refresh(self, who):
        self.changed(who, lambda store: store.live.refresh())
        assert self.content_of(self.stores[who]) == self.rows

    @rule(who=WHO)
    def open_again(self, who):
        self.stores[who] = Datastore.load(self.path)

    @rule(how=st.sampled_from(["backup", "files", "save"]))
    def move_to_a_copy(self, how):
        self.n_copies += 1
        copy = self.folder / f"copy{self.n_copies}"
        if how == "backup":
            copy_folder(self.path, copy)
        elif how == "files":
            shutil.copytree(self.path, copy)
        else:
            self.changed(0, lambda store: store.live.refresh())
            self.stores[0].save(copy)
        self.path = copy
        self.stores = [Datastore.load(copy), Datastore.load(copy)]

    @invariant()
    def it_holds_what_was_acknowledged(self):
        assert self.content_of(Datastore.load(self.path)) == self.rows

    def content_of(self, store):
        found = store.search(np.ones((1, 3)), len(store) + 2)
        labels = dict(zip(found.ids[0].tolist(), found.labels[0].tolist(), strict=True))
        ids = store.ids.tolist()
        return {number: (labels[number], text) for number, text in zip(ids, store.texts_of(ids), strict=True)}

    def teardown(self):
        shutil.rmtree(self.folder)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
