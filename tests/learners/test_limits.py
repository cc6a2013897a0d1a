"""Learners with limits of control: shares come within them, prices are those of a slow twin, and everything is kept."""

import numpy as np
import pytest

import cede


def swim(**costs):
    return cede.worlds.riverswim(agents=[0.3, 0.7], **costs)


ALGORITHMS = {"ucrl2_mc": cede.ucrl2_mc, "posterior_sampling": cede.posterior_sampling, "greedy": cede.greedy}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_shares_come_within_the_limits(algorithm):
    mdp = swim()
    free = cede.simulate(mdp, ALGORITHMS[algorithm](mdp.task), 4000)
    assert free.control[-1000:, 1].mean() / mdp.horizon > 0.6
    history = cede.simulate(mdp, ALGORITHMS[algorithm](mdp.task, at_most={"p=0.7": 0.3}), 4000)
    excess = np.cumsum(history.control[:, 1] / mdp.horizon - 0.3) / np.arange(1, 4001)
    assert excess[-1] < 0.02
    if algorithm != "greedy":  # which may settle on anybody
        assert history.control[2000:, 1].mean() / mdp.horizon == pytest.approx(0.3, abs=0.03)
    demanded = cede.simulate(mdp, ALGORITHMS[algorithm](mdp.task, at_least={"p=0.3": 0.6}), 4000)
    assert demanded.control[:, 0].mean() / mdp.horizon > 0.58


def test_the_cost_comes_to_that_of_the_best_mixture():
    """With all known the prices do what the linear programme does, episode by episode, and regret is against that."""
    mdp = swim(switch_cost=0.05)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    best = cede.solve(mdp, at_most={"p=0.7": 0.3})
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment, at_most={"p=0.7": 0.3})
    history = cede.simulate(mdp, learner, 4000)
    assert history.optimum == pytest.approx(best.cost)
    assert history.optimum > cede.expected_cost(mdp, cede.solve(mdp).policy) + 0.01
    assert history.control[:, 1].mean() / mdp.horizon == pytest.approx(0.3, abs=0.01)
    assert history.regret[-1] / 4000 == pytest.approx(0, abs=0.02)
    assert learner.prices["p=0.7"] == pytest.approx(best.prices[1], abs=0.05)


def test_prices_slowly():
    """Projected gradient ascent, in four lines."""
    mdp = swim(switch_cost=0.25)
    learner = cede.ucrl2_mc(mdp.task, at_most={"p=0.7": 0.2}, at_least={"p=0.3": 0.5})
    history = cede.simulate(mdp, learner, 50)
    above, below = 0.0, 0.0
    span = (mdp.task.env_cost.max() + 0.25) - mdp.task.env_cost.min()
    for k, shares in enumerate(history.control / mdp.horizon, start=1):
        above = max(0.0, above + span / np.sqrt(k) * (shares[1] - 0.2))
        below = max(0.0, below + span / np.sqrt(k) * (0.5 - shares[0]))
    assert learner.prices == pytest.approx({"p=0.3": -below, "p=0.7": above})


def test_by_hand_and_from_a_file_as_simulated(tmp_path):
    mdp = swim()
    simulated, by_hand = (cede.ucrl2_mc(mdp.task, at_most={"p=0.7": 0.3}, seed=2) for _ in range(2))
    rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(0,)))
    for k in range(40):
        by_hand.observe_episode(cede.rollout(mdp, by_hand.plan, rng))
        by_hand.end_episode()
        if k == 20:
            by_hand.save(tmp_path / "limited.cede")
            by_hand = cede.load(tmp_path / "limited.cede")
    cede.simulate(mdp, simulated, 40, seed=5)
    assert by_hand.prices == simulated.prices
    np.testing.assert_array_equal(by_hand.plan.value, simulated.plan.value)
    assert by_hand.about["at_most"] == {"p=0.7": 0.3}


def test_in_a_fleet():
    """Every team has limits and prices of its own; engines and shards change nothing."""
    mdps = [swim(switch_cost=cost) for cost in (0.0, 0.1, 0.2)]
    mdps = [cede.TwoLayerMDP(mdps[0].environment, mdp.team, mdp.horizon, mdp.start_agent) for mdp in mdps]
    limits = [{"p=0.7": 0.3}, {"p=0.7": 0.6}, None]

    def run(jobs):
        fleet = cede.Fleet(
            [cede.ucrl2_mc(m.task, at_most=most, seed=i) for i, (m, most) in enumerate(zip(mdps, limits, strict=True))]
        )
        return cede.simulate_fleet(mdps, fleet, 300, jobs=jobs), fleet

    (one, fleet), (other, _) = run(1), run(2)
    np.testing.assert_array_equal(one.control, other.control)
    shares = one.control[:, 150:, 1].mean(axis=1) / mdps[0].horizon
    assert shares[0] < 0.4 < shares[1] < 0.65 < shares[2]
    assert one.optimum[0] == pytest.approx(cede.solve(mdps[0], at_most=limits[0]).cost)
    assert fleet.learners[2].prices == {}
    assert fleet.welcome(mdps[0].task).settings.limits is None


def test_explained():
    mdp = swim()
    learner = cede.ucrl2_mc(mdp.task, at_most={"p=0.7": 0.1})
    cede.simulate(mdp, learner, 300)
    why = cede.explain(learner, 0, 0, 0)
    option = why.options[1]
    own = sum(option.parts[name] for name in ("environment", "control", "switching"))
    assert option.parts["limits"] == pytest.approx(option.plain - own)
    assert option.parts["limits"] > 0
    assert "To keep within its limits, a step of p=0.7 counts 0." in why.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"at_most": {"nobody": 0.3}}, "ucrl2_mc: an agent of at_most is 'nobody', must be one of"),
        ({"at_most": {"p=0.7": 1.3}}, r"ucrl2_mc: at_most\['p=0.7'\] is 1.3, must be a share, at most 1"),
        ({"at_most": {"p=0.7": 0.3}, "planning": "greedy"}, "ucrl2_mc: planning is 'greedy', must be 'full' with at_most"),
        ({"at_least": {"p=0.7": 0.3}, "replan": "doubling"}, "ucrl2_mc: replan is 'doubling', must be 'every' or a number"),
    ],
)
def test_bad_limits(settings, message):
    with pytest.raises(ValueError, match=message):
        cede.ucrl2_mc(swim().task, **settings)


def test_a_log_does_not_slow_prices_down():
    """Steps of prices become smaller with the episodes under limits, not with those of a log."""
    mdp = swim()
    learner = cede.ucrl2_mc(mdp.task, at_most={"p=0.7": 0.3})
    learner.learn_from([cede.rollout(mdp, mdp.task.always(1), seed) for seed in range(500)])
    assert learner.prices == {"p=0.3": 0.0, "p=0.7": 0.0}
    history = cede.simulate(mdp, learner, 500)
    assert history.control[:, 1].mean() / mdp.horizon < 0.35
