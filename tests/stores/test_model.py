"""A datastore is a dictionary from ids to examples that can be searched: any sequence of calls agrees with one."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import reference
from knn_ue.stores import Datastore

# Few different coordinates, so that ties and duplicates are common.
VECTOR = st.tuples(*[st.sampled_from([-1.0, 0.0, 2.0])] * 2)
TEXT = st.text(max_size=3)
EXAMPLE = st.tuples(VECTOR, st.integers(0, 3), TEXT)


class StoreAgainstDictionary(RuleBasedStateMachine):
    """Compare a store with a dictionary {id: (vector, label, text)}."""

    @initialize(examples=st.lists(EXAMPLE, max_size=5))
    def build(self, examples):
        self.folder = Path(tempfile.mkdtemp())
        self.expected = dict(enumerate(examples))
        self.next_id = len(examples)
        vectors = np.array([vector for vector, _, _ in examples], dtype=float).reshape(-1, 2)
        self.store = Datastore.build(vectors, [e[1] for e in examples], texts=[e[2] for e in examples])

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(examples=st.lists(EXAMPLE, max_size=3))
    def add(self, examples):
        vectors = np.array([vector for vector, _, _ in examples], dtype=float).reshape(-1, 2)
        ids = self.store.add(vectors, [e[1] for e in examples], texts=[e[2] for e in examples])
        assert ids.tolist() == list(range(self.next_id, self.next_id + len(examples)))
        self.expected |= dict(zip(ids.tolist(), examples, strict=True))
        self.next_id += len(examples)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.expected)), min_size=1, max_size=3))
        self.store.remove(ids)
        for number in set(ids):
            del self.expected[number]

    @rule()
    def compact(self):
        self.store.compact()

    @rule(name=st.sampled_from(["a", "b"]))
    def save_and_load(self, name):
        self.store.save(self.folder / name)
        self.store = Datastore.load(self.folder / name)

    @precondition(lambda self: self.store.path is not None)
    @rule()
    def reload(self):
        self.store = Datastore.load(self.store.path)

    @precondition(lambda self: self.expected)
    @rule(query=VECTOR, k=st.integers(1, 8))
    def search(self, query, k):
        ids = sorted(self.expected)
        rows, distances = reference.brute_force([self.expected[number][0] for number in ids], [query], k)
        found = self.store.search([query], k)
        width = min(k, len(ids))
        assert found.ids[0].tolist() == [ids[row] for row in rows[0]] + [-1] * (k - width)
        assert found.labels[0].tolist() == [self.expected[ids[row]][1] for row in rows[0]] + [-1] * (k - width)
        np.testing.assert_allclose(found.distances[0, :width], distances[0], rtol=1e-12)

    @invariant()
    def holds_the_same_examples(self):
        if hasattr(self, "expected"):
            assert self.store.ids.tolist() == sorted(self.expected)
            assert self.store.texts_of(self.store.ids) == [self.expected[i][2] for i in sorted(self.expected)]


TestStoreAgainstDictionary = StoreAgainstDictionary.TestCase
TestStoreAgainstDictionary.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
