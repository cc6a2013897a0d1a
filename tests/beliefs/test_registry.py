"""The registry of kinds of belief: whatever lists kinds, or what they may be used for, reads it."""

import inspect
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede.beliefs import kind as kinds
from cede.beliefs import registry
from cede.beliefs.registry import BY_NAME, KINDS, SETS, code_of, sets_that_allow
from cede.cli import app
from cede.learners.options import BeliefNames, ForgetRules, GreedyBackups
from cede.learners.ucrl2 import FORMS, UCRL2
from cede.learners.ucrl2_mc import UCRL2MC

ROOT = Path(__file__).parent.parent.parent
TWO_LAYERS = ["printed", "bernstein", "kl", "kl-value", "calibrated", "weissman"]


def test_what_there_is():
    """Written out: another kind of belief is added here, too."""
    assert [kind.name for kind in SETS] == ["printed", "appendix", "bernstein", "kl", "kl-value", "calibrated", "weissman"]
    assert [kind.name for kind in KINDS if not kind.is_set] == ["posterior", "frequencies", "known"]
    assert list(sets_that_allow("two layers")) == TWO_LAYERS
    assert sets_that_allow("one table") == ("printed", "appendix")
    assert sets_that_allow("two layers", "bounds") == ("printed", "bernstein", "kl", "calibrated", "weissman")
    assert sets_that_allow("two layers", "fading") == ("printed", "calibrated")
    assert sets_that_allow("two layers", "greedy planning") == ("printed", "bernstein", "kl", "kl-value", "weissman")
    assert sets_that_allow("two layers", "guarantee") == ("printed", "bernstein", "kl", "kl-value", "weissman")


def test_every_kind_has_a_file_a_form_and_what_that_form_needs():
    assert len(BY_NAME) == len(KINDS)
    for kind in KINDS:
        assert kind.form in get_args(kinds.Form), kind.name
        assert kind.allows <= set(get_args(kinds.Use)), kind.name
        assert kind.about, kind.name
        assert kind.assumes.endswith("."), kind.name
        assert (kind.constant is not None) == (kind.width is not None) == kind.is_set, kind.name
        assert (kind.linear > 0) == (kind.form == "intervals"), kind.name
    files = {path.stem for path in (ROOT / "src/cede/beliefs").glob("*.py") if "= BeliefKind(" in path.read_text()}
    assert files == {kind.name.split("-")[0] for kind in KINDS}


def test_codes_are_places_among_the_sets():
    assert [code_of(kind.name) for kind in SETS] == list(range(len(SETS)))
    assert [code_of(name) for name in (None, "posterior", "frequencies", "known")] == [-1, -1, -1, -1]


@pytest.mark.parametrize("name", TWO_LAYERS)
def test_a_set_can_be_asked_for_by_name(name):
    task = cede.worlds.riverswim().task
    assert cede.ucrl2_mc(task, belief=name).about["radius"] == name


def test_what_a_set_does_not_allow_is_refused():
    """By the settings, for every set and use; the messages are held by tests/learners/test_settings.py."""
    task = cede.worlds.riverswim().task
    assert set(FORMS.values()) == {kind.name for kind in SETS if "one table" in kind.allows}
    for kind in SETS:
        for use, more in {
            "two layers": {},
            "bounds": {"baseline": cede.ucrl2_mc(task, baseline=1).settings.baseline},
            "fading": {"forgetting": ForgetRules(environment=cede.HalfLife(5))},
            "greedy planning": {"plans": GreedyBackups()},
        }.items():
            if use != "two layers" and "two layers" not in kind.allows:
                continue
            if use in kind.allows:
                UCRL2MC(BeliefNames(kind.name), **more)
            else:
                with pytest.raises(ValueError, match="must be"):
                    UCRL2MC(BeliefNames(kind.name), **more)
        made = UCRL2MC(BeliefNames(kind.name)) if "two layers" in kind.allows else UCRL2(kind.name)
        assert made.is_scaled == ("guarantee" not in kind.allows)


def test_a_row_adds_to_its_constant_what_its_kind_says():
    """Printed: 2 log 2 less for each outcome that a row does not have; Bernstein: log(n / most); kl-value: log(functions)."""
    outcomes, functions = np.array([2.0, 5.0]), np.array([0.0, 3.0])
    found = {kind.name: kind.more(outcomes, 5, functions) for kind in SETS if kind.more is not None}
    np.testing.assert_allclose(found.pop("printed"), [-6 * np.log(2), 0.0])
    np.testing.assert_allclose(found.pop("bernstein"), [np.log(2 / 5), 0.0])
    np.testing.assert_allclose(found.pop("kl-value"), [0.0, np.log(3)])
    np.testing.assert_allclose(found.pop("weissman"), [-3 * np.log(2), 0.0])
    assert not found


def test_dispatch_calls_the_formula_of_a_kind():
    names = ("steps", "rows", "outcomes", "values", "delta")
    numbers = dict(zip(names, (140.0, 12, 5, 38, 0.25), strict=True))
    for kind in SETS:
        assert tuple(inspect.signature(kind.constant.py_func).parameters) == names
        assert tuple(inspect.signature(kind.width.py_func).parameters) == ("visits", "constant", "scale")
        assert registry.constant_of(code_of(kind.name), *numbers.values()) == kind.constant.py_func(**numbers), kind.name
        assert registry.width_of(code_of(kind.name), 7.0, 3.5, 0.3) == pytest.approx(kind.width.py_func(7.0, 3.5, 0.3), rel=1e-14)
    assert registry.constant_of(-1, *numbers.values()) == registry.width_of(-1, 7.0, 3.5, 0.3) == 0.0


def test_the_command_line_lists_them():
    text = CliRunner().invoke(app, ["learn", "--help"]).output
    assert all(f" {name} " in text for name in (*TWO_LAYERS, "authors", "small"))
    result = CliRunner().invoke(app, ["learn", "riverswim", "--method", "ucrl2-mc", "--radii", "wide", "--episodes", "2"])
    assert result.exit_code == 2
    listed = ", ".join(map(repr, (*TWO_LAYERS, "authors", "small")))
    assert f"learner: radii is 'wide', must be one of {listed}" in " ".join(result.output.split())


def test_the_documents_list_them():
    """docs/guarantees.md has a line for each set of UCRL2-MC, with what it may be used for."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    for name in TWO_LAYERS:
        kind = BY_NAME[name]
        marks = ["yes" if use in kind.allows else "no" for use in ("guarantee", "bounds", "fading", "greedy planning")]
        assert f"| `{name}` | {kind.about} | {' | '.join(marks)} |" in text, name
