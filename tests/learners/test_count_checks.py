"""Episodes and counts that are wrong are refused; the values that hold where nothing is said."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.learners.files import pack_settings
from cede.learners.learner import Learner
from cede.learners.reading import unpack_settings
from cede.learners.state import Sizes, check_cost_sums, unpack_layers
from cede.rows.places import Places
from cede.rows.stored import Counts, LayerCounts, check_layer, check_sums, checked_matrix
from cede.steps.log import numbers
from cede.steps.step import Episode

TASK = cede.worlds.riverswim([0.3, 0.7]).task
EPISODE = {"states": [0, 1, 1], "prev_agents": [0, 1], "agents": [1, 0], "actions": [1, 0], "costs": [0.0, 0.5]}


def test_an_episode_has_as_many_of_everything_as_steps():
    assert len(Episode(**EPISODE).actions) == 2
    for name in EPISODE:
        with pytest.raises(ValueError, match="Episode: the number of states - 1, prev_agents, agents, actions and costs is"):
            Episode(**{**EPISODE, name: EPISODE[name][:-1]})
    with pytest.raises(ValueError, match=r"costs is \(1, 2, 2, 2, 2\), must be equal"):
        Episode(**{**EPISODE, "states": [0, 1]})
    with pytest.raises(ValueError, match="the number of steps is 0, must be at least 1"):
        Episode([0], [], [], [], [])
    one = Episode([0, 1], [0], [0], [0], [0.5])
    assert len(one.actions) == 1
    with pytest.raises(ValueError, match=r"prev_agents\[1\] is 0, must be 1, who acted in the step before"):
        Episode(**{**EPISODE, "prev_agents": [0, 0]})


def test_counts_add_up():
    learners = [cede.ucrl2_mc(TASK, seed=i) for i in range(2)]
    for i, learner in enumerate(learners):
        cede.simulate(cede.worlds.riverswim([0.3, 0.7]), learner, 3 + i, seed=i, progress=False)
    one, two = (learner.counts for learner in learners)
    both = one + two
    assert (one.episodes, two.episodes, both.episodes, both.environment_episodes) == (3, 4, 7, 7)
    assert both.agents.sum() == both.environment.sum() == 7 * 20
    np.testing.assert_array_equal(both.agents.toarray(), one.agents.toarray() + two.agents.toarray())
    with pytest.raises(ValueError, match=r"Counts \+: the shape of agent/p=0.7 is None, must be \(6, 2\), as on the left"):
        one + cede.ucrl2_mc(cede.worlds.riverswim([0.1, 0.2, 0.3]).task).counts


def test_counts_are_sparse_and_no_less_than_nothing():
    for wrong in (np.ones((2, 2)), None, sp.csr_array(np.ones((2, 2), dtype=complex)), [[1.0]]):
        with pytest.raises(ValueError, match=r"x: agents is .*, must be a SciPy matrix of counts, \(rows, columns\)"):
            checked_matrix("x", "agents", wrong, (2, 2))
    for wrong in (-1.0, np.nan, np.inf, 2.0**63):
        with pytest.raises(ValueError, match="x: a count of agents is"):
            checked_matrix("x", "agents", sp.csr_array([[wrong]]), (1, 1))
    assert checked_matrix("x", "agents", sp.csr_array([[2.0**62]]), (1, 1)).total == 2.0**62


def test_sums_of_costs_are_those_of_numbers_from_0_to_1():
    check_sums("x", LayerCounts.of_matrix(sp.csr_array([[3.0, 2.0, 0.5, 2.5], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])))
    for wrong in ([3.0, 3.0, 0.1, 1.0], [3.0, 1.0, 0.0, 1.1]):
        with pytest.raises(ValueError, match=r"x: costs\[1\] is"):
            check_sums("x", LayerCounts.of_matrix(sp.csr_array([[0.0, 0.0, 0.0, 0.0], wrong])))
    with pytest.raises(ValueError, match="x: the number of columns of costs is 3, must be 4"):
        check_sums("x", LayerCounts.empty((2, 3)))


def test_costs_lie_in_the_range_that_the_task_says():
    task = TASK.with_unknown_costs((-1.0, 3.0))
    learner = cede.ucrl2_mc(task)
    for right in (-1.0, 3.0):
        learner.observe(0, 0, 0, 0, 0, 0, cost=right)
        learner.drop_episode()
    for wrong in (-1.01, 3.01):
        with pytest.raises(ValueError, match="must be from -1 to 3, the cost_range of the task"):
            learner.observe(0, 0, 0, 0, 0, 0, cost=wrong)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (cede.ucrl2_mc, "delta", 0.1),
        (cede.ucrl2_mc, "alpha", 0.1),
        (cede.ucrl2_mc, "scale", 1.0),
        (cede.recommended, "alpha", 0.1),
        (cede.ucrl2, "delta", 0.1),
        (cede.posterior_sampling, "prior", 1.0),
        (cede.insight.check_structure, "alpha", 0.01),
    ],
)
def test_what_holds_where_nothing_is_said(make, name, value):
    """As the documents have it. Guarantees follow from these: changing one changes what is promised."""
    assert inspect.signature(make).parameters[name].default == value


def test_an_episode_is_no_longer_than_the_horizon():
    task = cede.Task(agents=["a"], env_cost=np.zeros((1, 1)), horizon=2)
    learner = cede.ucrl2_mc(task)
    learner.observe_episode(Episode([0] * 3, [0] * 2, [0] * 2, [0] * 2, [0.0] * 2))
    learner.end_episode()
    with pytest.raises(ValueError, match="the number of steps of the episode is 3, must be at most 2, the horizon"):
        learner.observe_episode(Episode([0] * 4, [0] * 3, [0] * 3, [0] * 3, [0.0] * 3))


def test_where_unknown_costs_are_counted():
    """First those of actions that are not known, in order, then those of arriving."""
    cost, enter = np.array([[np.nan, 1.0], [2.0, np.nan], [0.0, 0.0]]), np.array([np.nan, 0.5, np.nan])
    ranges = {"cost_range": (0.0, 4.0), "enter_cost_range": (-1.0, 2.0)}
    found = Places(cede.Task(agents=["a"], env_cost=cost, enter_cost=enter, horizon=3, **ranges)).costs
    assert found.place.tolist() == [[0, -1], [-1, 1], [-1, -1]]
    assert found.enter_place.tolist() == [2, -1, 3]
    assert found.least.tolist() == [0.0, 0.0, -1.0, -1.0]
    assert found.spread.tolist() == [4.0, 4.0, 3.0, 3.0]


def test_a_learner_that_begins_with_counts():
    """They are whole where nothing is forgotten; counts that have faded need not be."""
    seen = cede.ucrl2_mc(TASK)
    cede.simulate(cede.worlds.riverswim([0.3, 0.7]), seen, 3, seed=0, progress=False)
    counts = seen.counts
    assert Learner(TASK, seen.settings, counts=counts).counts.agents.sum() == 60
    third = Counts.of(TASK, counts.agents * 0.3, counts.environment, 3)
    half = Counts.of(TASK, counts.agents * 0.5, counts.environment, 3)  # as agents who have changed have
    with pytest.raises(ValueError, match=r"a count of agent/p=0\.\d is .*, must be whole, or a multiple of 1/1024"):
        Learner(TASK, seen.settings, counts=third)
    assert Learner(TASK, seen.settings, counts=half).counts.agents.sum() == 30
    faded = Learner(TASK, cede.ucrl2_mc(TASK, forget=cede.HalfLife(10)).settings, counts=half)
    assert faded.counts.agents.sum() == 30


def test_zero_counts():
    assert Counts.zeros(TASK).episodes == 0
    assert Counts.zeros(TASK).agents.shape == (12, 2)
    assert Counts.zeros(TASK).environment.shape == (12, 6)


def test_columns_of_a_log_are_whole_numbers_in_range():
    assert numbers("x", "state", np.array([0.0, 4.0]), None, 5).tolist() == [0, 4]
    assert numbers("x", "state", np.array([0, 4]), None, 5).tolist() == [0, 4]
    for wrong in (np.nan, np.inf, -np.inf, 0.5, -1.0, 5.0):
        with pytest.raises(ValueError, match=r"x: state\[1\] is .*, must be an integer from 0 to 4"):
            numbers("x", "state", np.array([2.0, wrong]), None, 5)
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=r"x: state\[1\] is .*, must be an integer from 0 to 4"):
            numbers("x", "state", np.array([2, wrong]), None, 5)


def test_a_step_has_two_costs_at_most():
    """That of its action and that of arriving: 40 in an episode of 20 steps."""
    learner = cede.ucrl2_mc(TASK.with_unknown_costs((0.0, 1.0)))
    sizes = Sizes(learner.task, learner.settings)
    for n, fits in ((40.0, True), (41.0, False)):
        sums = np.zeros(sizes.seen["costs"])
        sums[0, 0] = n
        if fits:
            check_cost_sums("x", sizes, LayerCounts.of_matrix(sp.csr_array(sums)), 1)
        else:
            with pytest.raises(ValueError, match="x: the number of costs is 41, must be possible in 1 episodes"):
                check_cost_sums("x", sizes, LayerCounts.of_matrix(sp.csr_array(sums)), 1)


def test_what_is_declared_of_known_agents_is_dropped():
    river = cede.worlds.riverswim([0.3, 0.7])
    told = cede.Structure.by(range(6), range(2), agents={"p=0.3": lambda s: s // 3, "p=0.7": lambda s: s // 2})
    learner = cede.ucrl2_mc(TASK, structure=told, known_agents={"p=0.3": river.team.agents[0].policy})
    assert list(learner.settings.structure.agents) == ["p=0.7"]
    both = {agent.name: agent.policy for agent in river.team.agents}
    assert cede.ucrl2_mc(TASK, structure=told, known_agents=both).settings.structure is None


@pytest.mark.parametrize("window", [1, 2, 3])
def test_costs_of_the_last_episodes(window):
    river = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(TASK.with_unknown_costs((0.0, 1.0)), forget_environment=cede.Window(window))
    expected = []
    for seed in range(8):
        episode = cede.rollout(river, TASK.always(seed % 2), seed)
        learner.learn_from([episode], progress=False)
        rows = np.zeros((6, 2))
        np.add.at(rows, (episode.states[:-1], episode.actions), 1)
        expected.append(rows.ravel())
        np.testing.assert_array_equal(learner.counts.costs.toarray()[:, 0], sum(expected[-window:]))


def test_a_step_after_the_end_names_where_it_ended():
    task = cede.Task(agents=["a"], env_cost=np.zeros((3, 1)), horizon=4, terminal=[2])
    learner = cede.ucrl2_mc(task)
    learner.observe(0, 0, 0, 0, 0, 2)
    with pytest.raises(ValueError, match=r"this episode is over since state 2, must be ended first"):
        learner.observe(1, 0, 0, 0, 0, 1)
    learner.end_episode()
    learner.observe(0, 1, 0, 0, 0, 1)
    with pytest.raises(ValueError, match=r"state is 0, must be 1, where the step before led"):
        learner.observe(1, 0, 0, 0, 0, 1)


def test_a_file_holds_a_task_and_settings():
    learner = cede.ucrl2_mc(TASK)
    header, arrays = pack_settings(TASK, learner.settings)
    task, told = unpack_settings(header, arrays)
    assert (task.agents, told.delta) == (TASK.agents, 0.1)
    with pytest.raises(ValueError, match="file: task and settings is others, must be a Task and Settings"):
        unpack_settings({"task": header["told"], "told": header["told"]}, arrays)
    with pytest.raises(ValueError, match="file: task and settings is others, must be a Task and Settings"):
        unpack_settings({"task": header["task"], "told": header["task"]}, arrays)


def test_counts_of_several_teams_rise_within_each():
    """Places ascend; they may begin again only where another team begins."""
    two = np.array([1.0, 2.0, 3.0])
    for keys, owners in (([1, 4, 2], [0, 0, 1]), ([1, 4, 5], [0, 0, 1]), ([4, 4, 4], [0, 1, 2])):
        check_layer("x", "agents", LayerCounts((2, 3), np.array(keys), two), np.array(owners))
    for keys, owners in (([1, 4, 2], [0, 1, 1]), ([4, 1, 2], [0, 0, 1]), ([1, 1, 2], [0, 0, 1])):
        with pytest.raises(ValueError, match="agents"):
            check_layer("x", "agents", LayerCounts((2, 3), np.array(keys), two), np.array(owners))
    with pytest.raises(ValueError, match="agents"):
        check_layer("x", "agents", LayerCounts((2, 3), np.array([2, 1]), two[:2]))


@pytest.mark.parametrize("key", [[-1], [12], [1, 0]])
def test_a_table_of_all_agents_of_older_files_is_checked_as_a_whole(key):
    """Two agents, three states, two actions: 12 places."""
    task = cede.Task(env_cost=np.zeros((3, 2)), agents=["a", "b"], horizon=1)
    arrays = {"agents_key": np.array(key), "agents_number": np.ones(len(key))}
    with pytest.raises(ValueError, match="file: the counts of agents is impossible, must be ascending places of the table"):
        unpack_layers(Sizes(task, cede.ucrl2_mc(task).settings), {}, arrays)
