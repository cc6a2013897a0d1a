"""Trial episodes: who is tried when, for how long and where; announced, approved, and left out where nothing can be learned."""

import numpy as np
import pytest

import cede
from cede.learners.promises import TrialEpisodes, trial_at, trials_from

SWIM = cede.worlds.riverswim([0.1, 0.5, 0.9], switch_cost=0.05)


def trials(history, mdp):
    """The episodes, from 1, in which one member had control throughout, and who."""
    return {k + 1: int(steps.argmax()) for k, steps in enumerate(history.control) if steps.max() == mdp.horizon}


def played(learner, mdp, episodes, seed=0):
    """Play by hand; return by episode (reason, policy)."""
    rng, result = np.random.default_rng(seed), []
    for _ in range(episodes):
        session, state, prev = learner.session(None), 0, mdp.task.start_agent
        learner.choose(0, state, prev)
        result.append((session.reason, learner.plan.policy.copy()))
        learner.observe_episode(cede.rollout(mdp, learner.plan, rng))
        learner.end_episode()
    return result


def test_the_schedule_slowly():
    expected, begin = {}, 0
    while begin < 5000:
        expected |= {begin + 1: "p=0.1", begin + 2: "p=0.5", begin + 3: "p=0.9"}
        begin = 8 * max(begin, 3)
    for k in range(1, 1537):
        assert next(trials_from(SWIM.task, TrialEpisodes(), k)) == min(one for one in expected.items() if one[0] >= k)
        assert trial_at(SWIM.task, TrialEpisodes(), k) == expected.get(k)


def test_none_and_some():
    assert cede.recommended(SWIM.task, trials=False).settings.trials is None
    assert cede.recommended(SWIM.task, trials=True).settings.trials == TrialEpisodes()
    quiet = cede.simulate(SWIM, cede.recommended(SWIM.task, trials=False), 30, progress=False)
    assert not quiet.settings["trial_episodes"]
    two = cede.recommended(SWIM.task, trials={"agents": ["p=0.5", "p=0.1"]})
    assert [trial_at(SWIM.task, two.settings.trials, k) for k in (1, 2, 3, 16, 17, 18, 19)] == [
        *("p=0.5", "p=0.1", None, None, "p=0.5", "p=0.1", None)
    ]
    assert repr(two.settings) == "recommended(trials={'agents': (1, 0)})"


@pytest.mark.parametrize("wanted", [{"steps": 7}, {"states": [0, 1, 4]}, {"steps": 9, "states": [2, 3]}], ids=str)
def test_in_some_steps_and_states_only(wanted):
    """Elsewhere the plan holds, as a learner without trials makes it from the same counts; and values are of what is played."""
    learner, twin = (cede.recommended(SWIM.task, trials=trials, seed=3) for trials in (wanted, False))
    task, rng = SWIM.task, np.random.default_rng(5)
    for _ in range(24):
        episode = cede.rollout(SWIM, learner.plan, rng)
        for one in (learner, twin):
            one.observe_episode(episode)
            one.end_episode()
    assert learner.next_trial == ("p=0.1", 25)
    expected = twin.plan.policy.copy()
    for t in range(wanted.get("steps", task.horizon)):
        for s in wanted.get("states", range(task.n_states)):
            expected[t, s] = 0
    np.testing.assert_array_equal(learner.plan.policy, expected)
    assert not (expected == 0).all()
    assert (learner.plan.value >= twin.plan.value - 1e-12).all()
    assert (learner.plan.value > twin.plan.value).any()


def test_a_partial_trial_by_hand_and_compiled_is_the_same():
    for wanted in ({"steps": 5}, {"states": [1, 2]}):
        one, two = (cede.recommended(SWIM.task, trials=wanted, seed=2) for _ in range(2))
        history = cede.simulate(SWIM, one, 40, seed=1, progress=False)
        shown = Shown(two)
        again = cede.simulate(SWIM, shown, 40, seed=1, progress=False)
        np.testing.assert_array_equal(history.control, again.control)
        np.testing.assert_allclose(history.expected_cost, again.expected_cost, rtol=1e-12)
        np.testing.assert_array_equal(one.state.spent, two.state.spent)


class Shown:
    """A learner behind a plain object, which `simulate` calls from Python."""

    def __init__(self, inside):
        self.inside, self.task = inside, inside.task
        self.choose, self.observe, self.end_episode = inside.choose, inside.observe, inside.end_episode

    @property
    def plan(self):
        return self.inside.plan


def dear(price):
    """Two cheap agents and one whose control costs `price` a step; everybody does the same."""
    environment = cede.Environment(np.full((2, 2, 2), 0.5), [[0.1, 0.2], [0.3, 0.1]], [0.5, 0.5])
    policy = [[0.5, 0.5]] * 2
    agents = [cede.Agent("a", policy), cede.Agent("b", policy, 0.01), cede.Agent("dear", policy, price)]
    return cede.TwoLayerMDP(environment, cede.Team(agents), 10)


def test_who_can_only_cost_more_is_not_tried():
    """An episode costs about 1.75. Alone the third member costs at least 10 (0.1 + price): 1.2 could be the best, 4.0 could not."""
    tried, left_out = (
        cede.simulate(mdp, cede.recommended(mdp.task, seed=1), 250, seed=1, progress=False) for mdp in (dear(0.02), dear(0.3))
    )
    assert {3: 2, 27: 2, 195: 2}.items() <= trials(tried, dear(0.02)).items()
    assert left_out.control[:, 2].sum() == 0
    assert {1: 0, 2: 1, 25: 0, 26: 1, 193: 0, 194: 1}.items() <= trials(left_out, dear(0.3)).items()
    learner = cede.recommended(dear(0.3).task)
    assert learner.next_trial == ("a", 1)
    cede.simulate(dear(0.3), learner, 2, progress=False)
    assert learner.next_trial == ("a", 25)  # the third is left out


def test_what_was_spent_is_saved_and_of_the_learners_own_episodes(tmp_path):
    mdp = dear(0.3)
    learner = cede.recommended(mdp.task)
    history = cede.simulate(mdp, learner, 5, progress=False)
    assert learner.state.spent.tolist() == [5.0, pytest.approx(history.cost.sum())]
    learner.save(tmp_path / "one.cede")
    assert cede.load(tmp_path / "one.cede").state.spent.tolist() == learner.state.spent.tolist()


def test_approval():
    learner = cede.recommended(SWIM.task, trials={"approval": True})
    assert learner.next_trial == ("p=0.1", 1)
    history = cede.simulate(SWIM, learner, 30, progress=False)
    assert learner.episode == 31
    assert history.control[:3].max() <= SWIM.horizon
    learner.approve_trial("p=0.5")
    assert learner.next_trial == ("p=0.5", 31)
    assert (learner.plan.policy == 1).all()
    found = played(learner, SWIM, 2)
    assert [reason for reason, _ in found] == ["audition", "plan"]
    assert (found[0][1] == 1).all()
    learner.approve_trial()
    assert learner.next_trial.episode == 33


def test_a_trial_of_any_learner_is_given_to_one_session(tmp_path):
    learner = cede.ucrl2_mc(SWIM.task, scale=0.05)
    assert learner.next_trial is None
    learner.approve_trial(2)
    learner.save(tmp_path / "one.cede")
    for one in (learner, cede.load(tmp_path / "one.cede")):
        sessions = [one.session(str(i)) for i in range(4)]
        chosen = [session.choose(0) for session in sessions]
        assert [session.reason for session in sessions] == ["audition", "plan", "plan", "plan"]
        assert chosen[0] == 2
        for _ in range(3):
            sessions[0].observe(1, 1)
            assert sessions[0].choose(1) == 2
    with pytest.raises(ValueError, match="approve_trial: agent is missing, must be given: no trial episode is scheduled"):
        learner.approve_trial()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"trials": 0}, "recommended: trials is 0, must be"),
        ({"trials": {"step": 3}}, "recommended: a name in trials is 'step', must be one of"),
        ({"trials": {"agents": ["nobody"]}}, r"recommended: trials\['agents'\]\[0\] is 'nobody', must be one of"),
        ({"trials": {"states": [9]}}, r"recommended: trials\['states'\]\[0\] is 9, must be"),
        ({"trials": {"approval": 3}}, "trials: approval is 3, must be"),
    ],
)
def test_wrong_trials(wanted, message):
    with pytest.raises(ValueError, match=message):
        cede.recommended(SWIM.task, **wanted)


def test_where_there_are_none():
    endless = cede.Task(env_cost=[[0.0, 1.0]], agents=["a", "b"], horizon=None, discount=0.9)
    for wanted in (True, 5, {"steps": 3}):
        with pytest.raises(ValueError, match=r"recommended: trials is .*, must be left out without a horizon"):
            cede.recommended(endless, trials=wanted)
    learner = cede.recommended(endless)
    assert learner.next_trial is None
    with pytest.raises(ValueError, match="approve_trial: the learner is"):
        learner.approve_trial("a")
    with pytest.raises(ValueError, match="approve_trial: the learner is"):
        cede.ucrl2_mc(SWIM.task, baseline=0).approve_trial(1)
