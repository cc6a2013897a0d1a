"""Single lines of a record, and what a learner remembers of records: by hand."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.steps.read_record import Lines, checked, header_of_nothing
from cede.steps.recorded import CountedRun, Place, Recorded, unpacked


def test_a_drop_where_nothing_runs_drops_nothing():
    lines = Lines(header_of_nothing())
    lines.take({"event": "drop"})
    assert (lines.ended, lines.dropped, lines.inside) == ([], [], {})
    lines.take({"event": "run"})
    lines.take({"event": "end"})
    lines.take({"event": "drop"})
    assert (lines.ended, lines.dropped) == ([True], [False])


def test_the_first_episode_may_come_after_a_gap():
    lines = Lines(header_of_nothing())
    lines.take({"event": "gap", "expected": 3, "found": 1})
    assert (lines.gaps, lines.next_step, lines.elsewhere) == (1, 1, -2)
    for name in ("expected", "found"):
        with pytest.raises(ValueError, match="a gap is 0, must be an integer of at least 1"):
            lines.take({"event": "gap", "expected": 3, "found": 1, name: 0})


def test_an_episode_that_several_runs_went_on_with_is_counted_once():
    """In the run in which it began; its places in all of them are done."""
    before = Recorded(running=(Place("x/1", 4), Place("x/2", 0)))
    after = before.ended(None, counted=True)
    assert after == Recorded({"x/1": CountedRun(1, ((4, 5),)), "x/2": CountedRun(0, ((0, 1),))})
    assert (after.counted_in("x"), after.counted_in("y")) == (1, 0)
    assert before.ended(None, counted=False) == Recorded()
    assert before.ended("another", counted=True) == before


def test_episodes_without_steps_are_rows_of_zeros(tmp_path):
    """Two episodes of one step each, and two that ended without any, as no learner of today writes them."""
    task = cede.Task([[1.0, 2.0]], ["a", "b"], 2, control_cost=[0.0, 0.5])
    learner = cede.greedy(task)
    with learner.record_to(tmp_path / "a.jsonl"):
        for agent, action in ((0, 1), (1, 0)):
            learner.observe(0, 0, agent, agent, action, 0)
            learner.end_episode()
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"event":"end"}\n' * 2)
    found = cede.read_record(tmp_path / "a.jsonl").episodes()
    np.testing.assert_allclose(found.cost, [2.0, 1.5, 0.0, 0.0])
    assert found.lengths.tolist() == [1, 1, 0, 0]
    assert found.control.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    for column in (found.switches, found.overrides, found.unpriced):
        assert column.tolist() == [0, 0, 0, 0]


def test_the_first_episode_of_a_run_may_be_running():
    recorded = Recorded({"x/1": CountedRun(2, ((0, 2),))}, running=(Place("x/2", 0), Place("x/2", 1, "a session")))
    assert unpacked(recorded.packed()) == recorded


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dropped", lambda column: column[:-1]),
        ("number", lambda column: column[::-1].copy()),
        ("number", lambda column: column - 1),
        ("run_of", lambda column: column + 1),
        ("run_of", lambda column: column - 1),
        ("learner_episode", lambda column: column[:-1]),
        ("place", lambda column: column[:-1]),
    ],
)
def test_columns_of_a_record_that_do_not_fit_together_are_refused(tmp_path, name, change):
    task = cede.Task(env_cost=[[0.0, 1.0], [2.0, 3.0]], agents=["a", "b"], horizon=1)
    learner = cede.fixed(task, 0)
    with learner.record_to(tmp_path / "a.jsonl"):
        for _ in range(2):
            learner.observe(0, 0, 0, 0, 0, 1)
            learner.end_episode()
    record = cede.read_record(tmp_path / "a.jsonl")
    checked(record)
    with pytest.raises(ValueError, match="the numbers of the episodes is others, must be ascending"):
        checked(replace(record, **{name: change(getattr(record, name))}))
