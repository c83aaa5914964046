"""Every entry of docs/corrections.rst has its test, or says something that no test could show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "corrections.rst").read_text(encoding="utf-8")
HERE = "solvers/test_corrections.py"

#: How each entry begins, and the tests that fail if the paper were right.
TESTS = {
    "(7):": [(HERE, "test_7_needs_the_labels_beside_k")],
    "(10):": [(HERE, "test_10_needs_the_labels_in_front_of_w")],
    "(21):": [(HERE, "test_21_needs_the_labels_in_front_of_1_over_a")],
    "(28)-(31):": [(HERE, "test_28_to_31_need_lambda_over_c"), (HERE, "test_28_to_31_update_by_update")],
    "2SMO, step 1": [(HERE, "test_step_1_needs_the_label_in_front_of_f")],
    "SesquiSMO": [
        (HERE, "test_31_must_be_cut_for_sesquismo"),
        (HERE, "test_31_not_cut_is_wrong_at_one_of_these_places"),
    ],
    '"Pick a multiplier': [(HERE, "test_the_cyclic_order_crawls_at_ordinary_kernels")],
    "(42),": [
        (HERE, "test_42_at_a_large_a_has_all_but_no_bias"),
        (HERE, "test_42_at_a_tiny_a_has_no_digits_left_with_the_bias_inside"),
        (HERE, "test_table_1_is_not_of_ten_whole_folds"),
        ("solvers/test_plain_rules.py", "test_small_a_costs_the_plain_rule_many_updates"),
    ],
    "(43):": [(HERE, "test_43_needs_the_slack")],
    "(44):": [(HERE, "test_44_is_exact_from_the_size_of_the_bias_on")],
    "(52)-(58):": [
        (HERE, "test_57_is_not_semidefinite_for_a_large_alpha"),
        (HERE, "test_58_is_definite_exactly_above_a_bound"),
        (HERE, "test_58_makes_up_for_no_kernel_that_is_not_mercer"),
        (HERE, "test_58_misses_with_any_alpha_but_0"),
    ],
    "The iteration S": [
        ("solvers/test_cycling.py", "test_the_papers_iteration_cycles_on_some"),
        (
            "solvers/test_papers_iterations.py",
            "test_where_it_goes_round_it_says_so_and_the_line_search_does_not",
        ),
    ],
    "In floating point": [
        ("solvers/test_cycling.py", "test_multipliers_that_are_carried_end_elsewhere_on_some"),
        ("solvers/test_cycling.py", "test_all_end_optimal"),
    ],
    "n_SVmax": [
        (HERE, "test_a_cap_below_the_number_of_support_vectors"),
        (
            "solvers/test_papers_iterations.py",
            "test_a_cap_below_the_number_of_support_vectors_mostly_goes_round",
        ),
        ("solvers/test_solvers.py", "test_a_set_without_rows_on_the_way"),
    ],
    "(20)-(21)": [(HERE, "test_20_to_22_need_c_twice")],
    "The switches (64)": [("solvers/test_papers_algorithms.py", "test_all_ways_end_at_the_same_point")],
    "Table 3 prints C = 10": [("bench/test_papers_results.py", "test_rlssvm_tables_agree_in_both_rows")],
    "(16) holds": [(HERE, "test_20_tends_to_1"), ("bench/test_papers.py", "test_checkerboard")],
    "(17):": [("solvers/test_papers_iterations.py", "test_gradient_and_minimum")],
    "Table 2 counts": [(HERE, "test_an_iterate_that_has_not_converged_has_too_many_support_vectors")],
    "The dry run": [(HERE, "test_the_dry_run_takes_six_steps_where_next_to_nothing_is_left_to_do")],
    "NDC": [("kernels/test_datasets.py", "test_ndc")],
    "The two spirals": [("kernels/test_datasets.py", "test_spirals_are_solved_by_an_ls_svm")],
    "(12) holds for planes": [("search/test_capacity.py", "test_two_spirals_over_wide_ranges")],
    "Table 2, German": [(HERE, "test_both_models_save_the_same_in_all_rows_but_one")],
    "The gain": [(HERE, "test_the_kernel_hides_the_gain")],
    '"A bigger k': [(HERE, "test_a_bigger_k_does_not_save_more")],
}
#: Entries that no test can show: of what figures may be used for.
TOLD = ("C and gamma are tuned",)

ENTRIES = re.findall(r"^\*\*(.+?)\*\*", PAGE, re.M | re.S)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[:20])
def test_every_entry_has_its_tests(entry):
    found = [tests for start, tests in TESTS.items() if entry.startswith(start)]
    if entry.startswith(TOLD):
        assert not found
        return
    assert len(found) == 1, "add the test that shows it to TESTS, or say in TOLD that none can"
    for file, name in found[0]:
        assert re.search(rf"^ *def {name}", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.M), name


def test_nothing_is_shown_that_the_page_lacks():
    assert [start for start in (*TESTS, *TOLD) if not any(e.startswith(start) for e in ENTRIES)] == []
