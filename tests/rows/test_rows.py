"""Ids that stay, and sparse rows in canonical form."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.rows import Ids, canonical_csr


class TestArrivalNumbers:
    def test_do_not_shift_when_others_leave(self):
        ids = Ids.numbered(4).without(np.array([1])).extended(None, 2)
        assert ids.values.tolist() == [0, 2, 3, 4, 5]
        assert ids.positions([5, 2]).tolist() == [4, 1]

    def test_are_not_given_twice_even_if_the_last_row_left(self):
        ids = Ids.numbered(2).without(np.array([1])).extended(None, 1)
        assert ids.values.tolist() == [0, 2]

    def test_take_no_ids_of_the_callers(self):
        with pytest.raises(ValueError, match=r"arrival numbers.*give ids at fit"):
            Ids.numbered(2).extended(["a"], 1)


class TestOwnIds:
    @pytest.mark.parametrize(
        "ids",
        [
            ["a", "b", "c"],
            [10, 20, 30],
            [(1, 2), (3, 4), None],
            [(1, 2), (3, 4), (5, 6)],
            [1.5, "x", 3],
            np.array([7, 8, 9]),
            [2**70, 1, 2],
        ],
        ids=["strings", "numbers", "tuples", "only tuples", "mixed", "array", "huge"],
    )
    def test_come_back_as_they_were(self, ids):
        held = Ids.given(ids, 3)
        assert held.values.tolist() == list(ids)
        assert held.positions([held.values.tolist()[1]]).tolist() == [1]

    def test_numbers_and_strings_are_not_confused(self):
        held = Ids.given([1, "1", 2], 3)
        assert held.positions(["1"]).tolist() == [1]
        assert held.positions([1]).tolist() == [0]

    def test_new_rows_must_bring_theirs_which_may_be_held(self):
        held = Ids.given(["a", "b"], 2)
        assert held.extended(["c"], 1).values.tolist() == ["a", "b", "c"]
        with pytest.raises(ValueError, match="new rows must bring theirs"):
            held.extended(None, 1)
        assert held.extended(["b"], 1).positions(["b"]).tolist() == [1, 2]

    def test_an_id_stands_for_all_of_its_rows(self):
        held = Ids.given(["a", "b", "a", "c", "a"], 5)
        assert held.positions(["c", "a"]).tolist() == [3, 0, 2, 4]
        assert held.leaving(np.array([0, 1, 2])) == ("b",)  # A row of "a" stays.
        assert held.leaving(np.array([4, 2, 0])) == ("a",)
        assert held.without(np.array([0, 2])).positions(["a"]).tolist() == [2]
        with pytest.raises(ValueError, match="id 'a' is given twice"):
            held.positions(["a", "b", "a"])

    def test_unknown_and_repeated_ones_are_named(self):
        held = Ids.given(["a", "b"], 2)
        with pytest.raises(KeyError, match="no row with id 'z' is held"):
            held.positions(["a", "z"])
        with pytest.raises(KeyError, match="no row with id"):
            held.positions([["unhashable"]])
        with pytest.raises(ValueError, match="id 'a' is given twice"):
            held.positions(["a", "b", "a"])
        with pytest.raises(ValueError, match="ids must be a sequence of ids"):
            held.positions("a")


class TestCanonicalRows:
    def test_duplicates_are_added_and_indices_sorted(self):
        rows = sp.csr_matrix(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3]), shape=(1, 4))
        found = canonical_csr(rows)
        assert found.indices.tolist() == [0, 2]
        assert found.data.tolist() == [2.0, 4.0]
        assert rows.indices.tolist() == [2, 0, 2]  # The caller's own are as they were.

    @pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
    def test_indices_become_32_bit(self, kind):
        rows = kind(np.eye(3))
        rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        found = canonical_csr(rows)
        assert found.indices.dtype == found.indptr.dtype == np.int32
        np.testing.assert_array_equal(found.toarray(), np.eye(3))

    def test_what_is_canonical_is_not_copied(self):
        rows = sp.csr_matrix(np.eye(3))
        assert canonical_csr(rows) is rows
        dense = np.eye(3)
        assert canonical_csr(dense) is dense
