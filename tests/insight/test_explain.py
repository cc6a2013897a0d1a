"""Explanations: their numbers against evaluations made apart, their words, their picture."""

import warnings

import numpy as np
import pytest

import cede
from cede.insight import figures
from cede.insight.bounding import extremes
from problems import play, random_mdp, random_structured

WAYS = {
    "printed": lambda m: cede.ucrl2_mc(m.task, scale=0.2),
    "structured": lambda m: cede.ucrl2_mc(m.task, structure=m.structure, scale=0.2),
    "bernstein": lambda m: cede.ucrl2_mc(m.task, belief="bernstein", scale=0.1),
    "greedy planning": lambda m: cede.ucrl2_mc(m.task, planning="greedy", scale=0.2),
    "posterior": lambda m: cede.posterior_sampling(m.task, structure=m.structure),
    "greedy": lambda m: cede.greedy(m.task),
    "fixed": lambda m: cede.fixed(m.task, 0),
}


def believed(mdp, learner):
    """The problem in which frequencies are the truth, unseen rows uniform; for learners without structure."""
    task, counts = mdp.task, learner.counts

    def rows(matrix):
        dense = matrix.toarray().astype(float)
        total = dense.sum(axis=1, keepdims=True)
        return np.where(total > 0, dense / np.maximum(total, 1), 1 / dense.shape[1])

    policies = rows(counts.agents).reshape(-1, task.n_states, task.n_actions)
    agents = []
    for d, agent in enumerate(mdp.team.agents):
        own = policies[task.layout.slot[d] : task.layout.slot[d] + task.layout.n_slots[d]]
        agents.append(cede.Agent(agent.name, own if agent.varies_with else own[0], agent.control_cost, agent.varies_with))
    table = rows(counts.environment).reshape(task.n_states, task.n_actions, task.n_states)
    environment = cede.Environment(table, task.env_cost, mdp.environment.start)
    return cede.TwoLayerMDP(environment, cede.Team(agents, mdp.team.switch_cost), mdp.horizon, mdp.start_agent)


@pytest.mark.parametrize("seed", range(5))
def test_numbers(seed):
    """Of every agent: one change of the plan, evaluated under the frequencies and over the sets."""
    mdp = random_mdp(seed, n_agents=3)
    learner = cede.ucrl2_mc(mdp.task, scale=0.3)
    learner.learn_from(play(mdp, 10, seed))
    rng = np.random.default_rng(seed)
    t, s, prev = (int(rng.integers(n)) for n in (mdp.horizon, mdp.task.n_states, 3))
    found = cede.explain(learner, t, s, prev)
    assert found.chosen == learner.plan.policy[t, s, prev] == learner.choose(t, s, prev)
    imagined = believed(mdp, learner)
    for agent, option in enumerate(found.options):
        policy = learner.plan.policy.copy()
        policy[t, s, prev] = agent
        assert option.plain == pytest.approx(cede.evaluate(imagined, policy)[t, s, prev], abs=1e-9)
        assert sum(option.parts.values()) == pytest.approx(option.plain)
        low, high = extremes(mdp.task, *learner.beliefs, policy, learner.costs)
        assert option.optimistic == pytest.approx(low[t, s, prev])
        assert option.pessimistic == pytest.approx(high[t, s, prev])
        assert option.optimistic <= option.plain + 1e-9 <= option.pessimistic + 2e-9
    best = min(found.options, key=lambda option: option.optimistic)
    assert found.options[found.chosen].optimistic == pytest.approx(best.optimistic)  # optimism chooses the least


@pytest.mark.parametrize("way", WAYS)
def test_every_learner_explains_itself(way):
    mdp = random_structured(7)
    learner = WAYS[way](mdp)
    for episodes in (0, 20):
        if episodes:
            cede.simulate(mdp, learner, episodes, seed=1, progress=False)
        found = cede.explain(learner, 1, 2, mdp.task.agents[0])
        assert found.bounded == (learner.settings.belief is not None)
        assert str(found).endswith(".")
        assert len(found.options) == mdp.task.n_agents
        if not found.bounded:
            assert all(option.optimistic == pytest.approx(option.plain) for option in found.options)


def test_explaining_changes_nothing():
    mdp = random_structured(7)
    one, two = (cede.ucrl2_mc(mdp.task, structure=mdp.structure, scale=0.1) for _ in range(2))
    for learner in (one, two):
        cede.simulate(mdp, learner, 20, seed=1, progress=False)
    cede.explain(one, 0, 1, 0)
    histories = [cede.simulate(mdp, learner, 20, seed=2, progress=False) for learner in (one, two)]
    np.testing.assert_array_equal(histories[0].expected_cost, histories[1].expected_cost)


def test_in_a_fleet():
    mdps = cede.worlds.riverswim_teams(2, seed=1)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    cede.simulate_fleet(mdps, fleet, 30, progress=False)
    found = cede.explain(fleet.learners[0], 0, 0, 0)
    assert max(option.outcome_visits for option in found.options) > 60  # of both teams
    assert fleet.environment.sum() == 2 * 30 * 20


def test_words():
    """A machine that fails in one state, a person who does not: what a manager would read."""
    env = cede.Environment([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]], [0.0, 1.0], [1.0, 0.0])
    team = cede.Team(
        [cede.Agent("machine", [[0.0, 1.0], [0.0, 1.0]]), cede.Agent("human", [[1.0, 0.0], [1.0, 0.0]], 0.1)], switch_cost=0.1
    )
    mdp = cede.TwoLayerMDP(env, team, horizon=6)
    learner, scaled = cede.ucrl2_mc(mdp.task, belief="kl"), cede.ucrl2_mc(mdp.task, scale=0.02)
    rng = np.random.default_rng(0)
    log = [cede.rollout(mdp, rng.integers(2, size=(6, 2, 2)), rng) for _ in range(400)]
    learner.learn_from(log)
    scaled.learn_from(log)
    text = str(cede.explain(learner, 0, 1, "machine"))
    assert text.startswith("human takes over: expected to save ")
    assert "after paying 0.1 for the hand-over. human was seen acting here " in text
    assert "(between " in text
    assert "(between " not in str(cede.explain(scaled, 0, 1, "machine"))  # scaled sets give no interval to rely on
    assert str(cede.explain(learner, 0, 1, "human")).startswith("human stays in control: expected to save ")
    alone = cede.Task([[0.0], [1.0]], ["ann"], 3)
    assert str(cede.explain(cede.greedy(alone), 0, 0, 0)) == "ann is in control: there is nobody else."


def test_what_is_tried_out_says_so():
    task = cede.Task([[0.0, 0.0], [1.0, 1.0]], ["known", "new"], 5)
    learner = cede.ucrl2_mc(task, known_agents={"known": [[1.0, 0.0], [1.0, 0.0]]})
    log = {"episode": [0] * 4, "state": [0, 0, 0, 0], "agent": [0] * 4, "action": [0] * 4, "next_state": [0] * 4}
    for _ in range(300):
        learner.learn_from(log)
    text = str(cede.explain(learner, 0, 0, 0))
    assert text.startswith("new takes over to find out: by what was seen it costs ") or text.startswith("known stays in control: ")
    assert "seen acting here" in text


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e5])
def test_no_number_is_nothing_that_is_something(scale):
    """Whatever the unit of costs, what is saved is shown; and what is next to nothing is not shown as 0."""
    task = cede.Task([[0.0, 0.5 * scale], [scale, scale]], ["p=0.9", "[x]"], 4, control_cost=[0.0, 1e-4 * scale])
    told = {"known_agents": {"p=0.9": [[1.0, 0.0]] * 2, "[x]": [[0.5, 0.5]] * 2}}
    same = {"known_agents": {"p=0.9": [[0.5, 0.5]] * 2, "[x]": [[0.5, 0.5]] * 2}}
    clear, close = (str(cede.explain(cede.greedy(task, **one), 0, 0, 0)) for one in (told, same))
    assert clear.startswith("p=0.9 stays in control: expected to save ")
    assert "against [x] over the rest of the episode" in clear
    assert float(clear.split("save ")[1].split(" ")[0].replace(",", "")) > 0
    saved = close.split("expected to save ")[1].split(" against")[0]
    assert saved.startswith("less than ") or float(saved.replace(",", "")) > 0
    assert "The " not in clear + close


def test_numbers_for_people():
    for value, stake, text in (
        (0.0, 5.0, "0"),
        (0.0004, 5.2, "less than 0.01"),
        (-0.0004, 5.2, "more than -0.01"),
        (0.5234, 5.2, "0.52"),
        (1234.5, 0.0, "1,234"),
        (0.1, 0.0, "0.1"),
        (2.5e-9, 0.0, "2.5e-09"),
    ):
        assert figures.figure(value, stake) == text
    assert figures.interval(14.03, 13.98, 14.11) == ("14.03", "13.98", "14.11")
    assert figures.interval(1.0, 1.0, 1.0) == ("1", "1", "1")
    assert figures.interval(0.0001, -5.0, 5.0) == ("less than 1", "-5", "5")


def test_equal_costs_and_given_policies():
    task = cede.Task([[1.0, 1.0]], ["a", "b"], 3)
    assert "by what was seen it costs as much as b" in str(cede.explain(cede.fixed(task, "a"), 0, 0, 0))
    dear = cede.Task([[1.0, 1.0]], ["a", "b"], 3, control_cost={"b": 0.5})
    text = str(cede.explain(cede.fixed(dear, "b"), 0, 0, 0))
    assert text.startswith("b takes over, as the given policy says: by what was seen it costs 0.5 more than a over the rest")
    assert "save" not in text
    assert text.endswith("b was never seen acting here.")


def test_the_picture(tmp_path):
    mdp = random_structured(7)
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure)
    cede.simulate(mdp, learner, 20, progress=False)
    path = cede.explain(learner, 0, 0, 0).draw(tmp_path / "why.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["why.png"]


def test_limits_are_in_what_is_compared():
    mdp = cede.worlds.support_desk()
    learner = cede.posterior_sampling(mdp.task, at_most={"person": 0.02})
    cede.simulate(mdp, learner, 300, progress=False)
    found = cede.explain(learner, 0, 0, 1)
    assert learner.prices["person"] > 0
    assert str(found).endswith("; the costs compared here include that.")
    assert all(option.plain == pytest.approx(sum(option.parts.values())) for option in found.options)
    last = cede.explain(learner, mdp.horizon - 1, 0, 1).options  # in the last step, a price counts once
    added = {option.agent: option.parts["limits"] for option in last}
    assert len(added) > 1
    for name, part in added.items():
        assert part - added["person"] == pytest.approx(learner.prices[name] - learner.prices["person"])


def test_who_cannot_stay_is_compared_with_the_next_best():
    """After a, control must go to b or c, which costs 1 more."""
    never = np.inf
    task = cede.Task([[1.0]], ["a", "b", "c"], 1, control_cost=[0, 1, 2], switch_cost=[[never, 0, 0], [0, 0, 0], [0, 0, 0]])
    expected = "b takes over: expected to save 1 against c over the rest of the episode. b was never seen acting here."
    assert str(cede.explain(cede.fixed(task, "b"), 0, 0, "a")) == expected


@pytest.mark.parametrize("agents", [2, 3, 4])
def test_the_legend_hides_no_bar(tmp_path, monkeypatch, agents):
    """Legend and title lie outside of both axes."""
    import matplotlib.pyplot as plt

    task = cede.Task([[0.0, 1.0], [1.0, 1.0]], [f"agent {d}" for d in range(agents)], 5, control_cost=0.3, switch_cost=0.1)
    kept, close = [], plt.close
    monkeypatch.setattr(plt, "close", kept.append)
    cede.explain(cede.greedy(task), 0, 0, 0).draw(tmp_path / "why.png")
    picture, axes = kept[0], kept[0].axes
    assert all(one.get_legend() is None for one in axes)
    legend = picture.legends[0].get_window_extent()
    assert legend.width > 0
    for one in axes:
        frame = one.get_window_extent()
        assert not frame.overlaps(legend)
        for bar in one.patches:
            box = bar.get_window_extent()
            assert frame.y0 < box.y0 < box.y1 < frame.y1
    close(picture)


def test_bad_input():
    task = cede.worlds.riverswim().task
    for text, make in {
        "explain: learner is 3, must be a Learner": lambda: cede.explain(3, 0, 0, 0),
        r"explain: learner is ucrl2 \(appendix\), must be one that tells": lambda: cede.explain(cede.ucrl2(task), 0, 0, 0),
        "explain: t is 20, must be an integer from 0 to 19": lambda: cede.explain(cede.greedy(task), 20, 0, 0),
        "explain: state is 6, must be": lambda: cede.explain(cede.greedy(task), 0, 6, 0),
        "explain: prev_agent is 'eve', must be one of": lambda: cede.explain(cede.greedy(task), 0, 0, "eve"),
        "explain: prev_agent is missing, must be one of 'p=0', 'p=1'": lambda: cede.explain(cede.greedy(task), 0, 0),
        "explain: state is missing, must be one of 's1', 's2'": lambda: cede.explain(cede.greedy(task), 0),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()


LONG = ["the regional on-call operations engineer of the night shift in the northern control centre", "W" * 90, "a_b" * 40, "x"]


@pytest.mark.parametrize("draw", ["explain", "summary"])
def test_long_names_leave_room_for_what_is_drawn(monkeypatch, tmp_path, draw):
    """Names are broken into lines, the figure grows with them, and nothing that is written lies outside of what is saved."""
    drawn = {}

    def look(picture, path, **options):
        picture.canvas.draw()
        whole = picture.get_tightbbox(picture.canvas.get_renderer()).width
        drawn.update(options, parts=[axes.get_window_extent().width / picture.dpi / whole for axes in picture.axes])
        return path

    module = {"explain": "explaining"}.get(draw, draw)
    monkeypatch.setattr(f"cede.insight.{module}.save_picture", look)
    environment = cede.Environment(np.ones((1, 2, 1)), [[1.0, 0.0]], [1.0], state_names=[LONG[0]])
    mdp = cede.TwoLayerMDP(environment, cede.Team([cede.Agent(name, [[0.5, 0.5]]) for name in LONG], 0.1), 4)
    learner = cede.ucrl2_mc(mdp.task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Matplotlib warns where there is no room left
        (cede.explain(learner, 0, 0, 0) if draw == "explain" else cede.insight.summarise(learner)).draw(tmp_path / "picture.png")
    assert drawn["bbox_inches"] == "tight"
    assert min(drawn["parts"]) > 0.15


def test_a_price_is_worth_more_the_more_later_costs_are_discounted():
    desk = cede.worlds.support_desk()
    mdp = cede.TwoLayerMDP(desk.environment, desk.team, desk.horizon, discount=0.5)
    learner = cede.greedy(mdp.task, at_most={"person": 0.02})
    cede.simulate(mdp, learner, 50, progress=False)
    assert (price := learner.prices["person"]) > 0
    for t in (0, 2):
        assert f"a step of person counts {figures.figure(price * 2.0**t, digits=2)} more" in str(cede.explain(learner, t, 0, 1))
