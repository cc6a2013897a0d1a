"""Comparisons with learners that are not cede's own: the same bits as `simulate`, and regret that says what it is."""

import numpy as np
import pytest

import cede
from cede.comparison.table import NOT_EXACT

WORLDS = {"river": ("riverswim", {"agents": [0.3, 0.7]}), "desk": "support-desk"}


class Follower:
    """Gives whole episodes to the agent that was cheapest so far, and shows no policy."""

    def __init__(self, task):
        self.task, self.agent, self.spent, self.times = task, 0, np.zeros(task.n_agents), np.zeros(task.n_agents)

    def choose(self, t, state, prev_agent):
        return self.agent

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        self.spent[agent] += self.task.step_cost(state, prev_agent, agent, cost, enter_cost)

    def end_episode(self):
        self.times[self.agent] += 1
        self.agent = int(self.times.argmin() if self.times.min() < 2 else (self.spent / self.times).argmin())


class Open(Follower):
    @property
    def policy(self):
        return self.task.always(self.agent)


LEARNERS = {"greedy": "greedy", "open": lambda task, seed: Open(task), "closed": lambda task, seed: Follower(task)}


@pytest.fixture(scope="module")
def result():
    return cede.compare(WORLDS, LEARNERS, 8, 3, seed=2, progress=False)


def test_runs_are_those_of_simulate(result):
    worlds = {"river": cede.worlds.riverswim(agents=[0.3, 0.7]), "desk": cede.worlds.support_desk()}
    for w, mdp in enumerate(worlds.values()):
        for r, seed in enumerate(result.seeds):
            histories = [cede.simulate(mdp, kind(mdp.task), 8, seed=seed, progress=False) for kind in (Open, Follower)]
            np.testing.assert_array_equal(result.regret[w, 1, r], histories[0].regret)
            np.testing.assert_array_equal(result.regret[w, 2, r], histories[1].realised_regret)
            for n, history in enumerate(histories):
                np.testing.assert_array_equal(result.cost[w, n + 1, r], history.cost)
                assert result.optimum[w, n + 1, r] == history.optimum
    assert result.settings["desk"]["open"]["learner"] == "Open"


def test_regret_that_is_not_exact_is_called_realised(result):
    assert result.realised == ("closed",)
    table = result.table()
    assert [row.learner for row in table.rows[:3]] == ["greedy", "open", "closed (realised)"]
    assert NOT_EXACT in table.note
    assert "realised" not in str(result.table("cost"))
    texts = [text.get_text() for text in result.plot().legends[0].get_texts()]
    assert texts == ["greedy", "open", "closed (realised)"]
    exact = cede.compare(WORLDS, {"greedy": "greedy", "open": LEARNERS["open"]}, 4, 2, progress=False)
    assert exact.realised == ()
    assert "ealised" not in str(exact.table())


def test_engines_directories_and_progress(result, tmp_path):
    seen = []
    for _ in range(2):
        again = cede.compare(WORLDS, LEARNERS, 8, 3, seed=2, engine="processes", jobs=1, directory=tmp_path, progress=seen.append)
        np.testing.assert_array_equal(again.regret, result.regret)
    total = 2 * 3 * 3 * 8
    assert seen.count(total) >= 2
    assert max(seen) == total
    assert len(list(tmp_path.glob("*.npz"))) == 2 * 3  # greedy alone is kept


def test_without_horizon():
    class Endless:
        def __init__(self, task, shows):
            self.policy = task.always(1) if shows else None

        def choose(self, state, prev_agent):
            return 1

        def observe(self, *step, cost, enter_cost):
            pass

        def end_episode(self):
            pass

    world = {"river": ("riverswim", {"agents": [0.3, 0.7], "horizon": None, "discount": 0.9})}
    learners = {"fixed": ("fixed", {"agent": 1}), "mine": lambda task, seed: Endless(task, True)}
    found = cede.compare(world, learners, repeats=2, steps=20, record_every=10, progress=False)
    np.testing.assert_allclose(found.regret[:, 0], found.regret[:, 1], rtol=1e-7, atol=1e-9)
    with pytest.raises(
        ValueError, match=r"learner 'mine': the policy of the learner is not shown, must be shown where there is no"
    ):
        cede.compare(world, {"mine": lambda task, seed: Endless(task, False)}, repeats=2, steps=20, progress=False)


def test_what_is_refused():
    one = Open(cede.worlds.support_desk().task)
    cases = {
        r"learner 'x': what stands for it is <.*, must be a function of a task and a seed \(too many": lambda task: None,
        r"learner 'x': what its function returned is .*, must be a Learner, or anything with choose": lambda task, seed: object(),
        r"the Open that a function returned is the same as before, must be a new one": lambda task, seed: one,
        r"learner 'x': .*states": lambda task, seed: Open(cede.worlds.riverswim().task),
    }
    for message, make in cases.items():
        with pytest.raises(ValueError, match=message):
            cede.compare(["support-desk"], {"x": make}, 2, 2, progress=False)
    with pytest.raises(ValueError, match=r"world 'w': what stands for it is <.*, must be a function of a seed \(missing"):
        cede.compare({"w": lambda seed, size: None}, ["greedy"], 2, 2, progress=False)


def test_too_few_repeats_are_told_before_anything_runs(capsys, monkeypatch):
    monkeypatch.setattr("cede.comparison.compare.played", None)  # fails when it is called
    with pytest.raises(TypeError):
        cede.compare(WORLDS, ["greedy", "recommended"], 2, 3)
    assert capsys.readouterr().err == "compare: 3 repeats and 2 comparisons can decide nothing; at least 7 repeats are needed\n"
    with pytest.raises(TypeError):
        cede.compare(WORLDS, ["greedy", "recommended"], 2, 7)
    assert capsys.readouterr().err == ""


def test_one_screen(result):
    text = repr(result)
    assert text == "Comparison(worlds: river, desk, learners: greedy, open, closed, 3 repeats, 8 episodes)"
