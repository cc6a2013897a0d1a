"""Teams packed and laid out again, luck in compiled code, sums that can be taken back: each against a slow, obvious twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede._kernels.random_streams import draw_uniform
from cede._kernels.tables import KeyTable, Table, add, growth, take
from cede.fleet.grouping import stream_of, streams_of
from cede.learners.stacks import joined, part_of
from cede.learners.state import ARRAYS, LearnerState
from cede.rows.stored import LayerCounts
from cede.worlds import lane_driving
from cede.worlds.riverswim import riverswim_teams


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63 - 1])
def test_luck_is_that_of_numpy_number_for_number(seed):
    rng = np.random.default_rng(seed)
    stream = np.array(stream_of(rng.bit_generator), dtype=np.uint64)
    for n in (1, 41, 1000):
        drawn = np.empty(n)
        draw_uniform(stream, drawn)
        np.testing.assert_array_equal(drawn, rng.random(n))
    np.testing.assert_array_equal(stream, np.array(stream_of(rng.bit_generator), dtype=np.uint64))


def test_streams_are_those_that_numpy_spawns():
    children = np.random.SeedSequence(7).spawn(5)
    for stream, child in zip(streams_of(7, 5), children, strict=True):
        drawn = np.empty(9)
        draw_uniform(stream, drawn)
        np.testing.assert_array_equal(drawn, np.random.default_rng(child).random(9))


def test_another_kind_of_generator_chooses_a_stream():
    mdp = riverswim_teams(1)[0]
    runs = [
        cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 30, seed=np.random.Generator(np.random.MT19937(seed)), progress=False).cost
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60)


@given(base=steps, more=steps)
@settings(max_examples=60, deadline=None)
def test_what_was_added_can_be_taken_back(base, more):
    """A pool against a dictionary; after taking all back it holds what it held, whatever moved."""
    table, kept = Table.empty(4, 6), {}
    for row, column in base:
        table.lengthen_to(table.end + 40)
        add(table, row, column, 1.0)
        kept[row, column] = kept.get((row, column), 0) + 1
    before = table.matrix().toarray()
    assert before.sum() == len(base)
    assert all(before[place] == n for place, n in kept.items())
    for row, column in more:
        table.lengthen_to(table.end + 40)
        add(table, row, column, 1.0)
    for row, column in more[::-1]:
        take(table, row, column, 1.0)
    np.testing.assert_array_equal(table.matrix().toarray(), before)
    np.testing.assert_array_equal(table.total, before.sum(axis=1))
    assert (table.matrix().data > 0).all()


@given(parts=st.lists(steps, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_sparse_sums_add_in_any_order(parts):
    dense = np.zeros((4, 6))
    tables = []
    for part in parts:
        one = np.zeros((4, 6))
        for place in part:
            one[place] += 1
        dense += one
        tables.append(LayerCounts.of_table(Table.dense(one)))
    for order in (tables, tables[::-1]):
        table = Table.empty(4, 6)
        for layer in order:
            table.add(layer.key, layer.number)
        np.testing.assert_array_equal(table.matrix().toarray(), dense)
    np.testing.assert_array_equal(LayerCounts.of_table(table).matrix.toarray(), dense)
    np.testing.assert_array_equal(sum(tables[1:], tables[0]).matrix.toarray(), dense)


def test_growth_is_enough_and_is_reached():
    """The room that is made for some steps is enough in the worst case, and no more than a few times too much."""
    for steps_n, rows, columns in ((5, 3, 8), (40, 3, 8), (200, 2, 50), (30, 30, 4)):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            table = Table.dense((rng.random((rows, columns)) < 0.3).astype(float))
            entries = table.end
            allowed = entries + growth(entries, rows, columns, steps_n)
            places = np.argwhere(table.matrix().toarray() == 0)
            chosen = places[rng.permutation(len(places))[:steps_n]]
            table.lengthen_to(allowed)
            for row, column in chosen:
                add(table, row, column, 1.0)
            assert table.end <= allowed


def test_packed_rows_are_cut_and_joined():
    size, key, number = np.array([2, 0, 3]), np.array([1, 4, 0, 2, 9]), np.arange(1.0, 6.0)
    table = KeyTable.of(size, key, number, 10)
    np.testing.assert_array_equal(table.total, [3, 0, 12])
    state = {"agents_size": size, "agents_key": key, "agents_number": number, "judged_cost": np.array([7.0, 8.0, 9.0])}
    again = joined([part_of(state, 0, 1), part_of(state, 1, 1), part_of(state, 1, 3)])
    for name, array in state.items():
        np.testing.assert_array_equal(again[name], array)


def test_a_state_holds_counts_and_gives_them_back():
    mdp = riverswim_teams(1)[0]
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, 30)
    counts = learner.counts
    again = LearnerState(counts).counts
    assert (again.agents != counts.agents).nnz == 0
    assert (again.environment != counts.environment).nnz == 0
    assert counts.environment.dtype == np.int64
    assert len(LearnerState().counts.layers) == 0


def size_of(learner):
    """Bytes of the arrays that a learner holds, as far as they are its own."""
    state = learner.state
    arrays = [array for layer in state.counts.layers.values() for array in (layer.key, layer.number)]
    return sum(array.nbytes for array in (*arrays, *(getattr(state, one.name) for one in ARRAYS)))


def test_the_memory_of_a_team_follows_what_it_has_seen():
    """Lane driving has 1,152 states and a machine with ten tables; a team that drove five times knows fifty steps."""
    mdps = [lane_driving(sigma=s) for s in (1.0, 2.0, 3.0)]
    known = {"machine": mdps[0].team.agents[0].policy}
    learners = [cede.ucrl2_mc(m.task, known_agents=known) for m in mdps]
    cede.simulate_fleet(mdps, cede.Fleet(learners), 5, progress=False)
    for learner in learners:
        assert len(learner.state.counts.all_agents.key) <= 50
        assert size_of(learner) < 3000
    assert len({id(mdp.team.agents[0].policy) for mdp in mdps}) == 1
    assert all(np.shares_memory(a.settings.knowledge.agents[0], known["machine"]) for a in learners)


def test_a_learner_that_was_used_by_hand_goes_on_in_a_fleet_and_back():
    """Packed and opened again and again: the same as a learner that was never packed."""
    mdp = riverswim_teams(1, seed=4)[0]
    for options in ({}, {"replan": "doubling"}, {"replan": 4}, {"planning": "greedy"}):
        one, other = (cede.ucrl2_mc(mdp.task, scale=0.4, seed=2, **options) for _ in range(2))
        rng = np.random.default_rng(3)
        cede.simulate(mdp, one, 40, seed=np.random.default_rng(3))
        for _ in range(8):
            cede.simulate(mdp, other, 5, seed=rng)
            other.plan  # noqa: B018 (opens it)
        np.testing.assert_array_equal(one.plan.policy, other.plan.policy)
        np.testing.assert_array_equal(one.plan.value, other.plan.value)
        assert (one.counts.agents != other.counts.agents).nnz == 0
