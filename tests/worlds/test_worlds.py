"""Both worlds against their tables and against every reference value of the notes."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import cede
from cede.beliefs.truth import true_environment
from cede.worlds import drivers, lane_driving, relay, riverswim, road
from cede.worlds.lane_driving import drive

CELL_COST = np.array([0.0, 2.0, 4.0, 10.0])  # road, grass, stone, car


@pytest.mark.parametrize(
    ("version", "agents", "optimum"),
    [
        ("osband", [0, 1], 16.5931),
        ("strehl-littman", [0, 1], 18.7578),
        ("osband", [0.3, 0.7], 19.6497),
        ("strehl-littman", [0.3, 0.7], 19.8520),
    ],
)
def test_riverswim_reference_values(version, agents, optimum):
    mdp = riverswim(agents=agents, version=version)
    assert cede.expected_cost(mdp, cede.solve(mdp).policy) == pytest.approx(optimum, abs=5e-5)


def test_always_right_is_not_quite_optimal():
    mdp = riverswim()
    always = cede.expected_cost(mdp, np.ones((20, 6, 2), dtype=int))
    assert 0 < always - cede.expected_cost(mdp, cede.solve(mdp).policy) < 0.01


def test_agents_that_are_nearly_alike_have_names_of_their_own():
    assert riverswim(agents=[0.5001, 0.4999]).task.agents == ("p=0.5 (0)", "p=0.5 (1)")


@pytest.mark.parametrize("macro", [2, 3, 4])
def test_macro_steps_are_m_steps(macro):
    """A macro action followed by its cost equals the m single steps it stands for."""
    single, mdp = riverswim(agents=[0.3], horizon=macro), riverswim(agents=[0.3], macro=macro, horizon=1)
    assert mdp.environment.n_actions == 2**macro
    np.testing.assert_allclose(cede.solve(mdp).value[0], cede.solve(single).value[0], atol=1e-12)
    assert mdp.horizon == 1
    assert riverswim(macro=macro).horizon == 20


def test_lane_driving_has_the_states_that_can_occur():
    s = road.states()
    assert len(s.level) == 1152
    assert [(s.lane == lane).sum() for lane in range(3)] == [192, 768, 192]
    per_row = np.diff(road.transition().indptr)
    assert per_row.max() == 27 + 64 + 64  # of at most 192: rows of level no-car hold no car
    mdp = lane_driving()
    assert (mdp.environment.n_states, mdp.environment.n_actions, mdp.horizon) == (1152, 3, 10)
    assert mdp.team.agents[mdp.start_agent].name == "machine"
    assert true_environment(mdp.environment).centre.n_rows == 36  # what comes next depends on level, cell steered to and new lane


def test_lane_driving_moves_as_the_text_says():
    """Roads sampled row by row, driven at random: where the car gets must be what the table allows, as often as it says."""
    rng = np.random.default_rng(0)
    p = road.transition().toarray().reshape(1152, 3, 1152)
    seen = np.zeros((1152, 3, 1152))
    for i in range(3000):
        along = road.sample_road(6, seed=rng)
        lane = 1
        for row in range(4):
            a = int(rng.integers(3))
            s = road.state_on(along, row, lane)
            lane = int(road.target_lane(lane, a))
            after = road.state_on(along, row + 1, lane)
            seen[s, a, after] += 1
            assert p[s, a, after] > 0, i
    # Pooled over everything: expected against observed share of "the new row has a car straight ahead".
    n = seen.sum(axis=2)
    car = road.states().ahead[:, 1] == 3
    expected, observed = (n[..., None] * p)[..., car].sum(), seen[..., car].sum()
    assert abs(expected - observed) < 4 * np.sqrt(expected)


@pytest.mark.parametrize(("traffic", "human", "best"), [("no-car", 3.102, 0.884), ("light", 4.658, 2.261), ("heavy", 7.374, 4.836)])
def test_lane_driving_reference_costs(traffic, human, best):
    mdp = lane_driving(traffic=traffic)
    assert cede.simulate(mdp, cede.fixed(mdp.task, "human"), 1).expected_cost[0] == pytest.approx(human, abs=5e-4)
    driver = drivers.solo(road.traffic_mix("test", traffic))
    assert cede.expected_cost(driver, cede.solve(driver).policy) == pytest.approx(best, abs=5e-4)


def test_the_trained_machine():
    """Within 10% of the best driver without cars, at least 1.8 times the human's cost with them."""
    empty, busy = lane_driving(traffic="no-car"), lane_driving(traffic=[0, 0.5, 0.5])

    def cost(mdp, agent):
        return cede.simulate(mdp, cede.fixed(mdp.task, agent), 1).expected_cost[0]

    assert cost(empty, "machine") < 1.10 * 0.8837
    assert cost(busy, "machine") > 1.8 * cost(busy, "human")


@pytest.mark.parametrize("sigma", [0.3, 2.0, 3.9, 40.0])
def test_human_by_another_quadrature(sigma):
    policy, s = drivers.human_policy(sigma), road.states()
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=1e-12)
    for state in (0, 200, 333, 700, 959, 960, 1151):
        reachable = [i for i in range(3) if s.ahead[state, i] != road.WALL]
        cost = {i: CELL_COST[s.ahead[state, i]] for i in reachable}
        for i in range(3):
            if i not in reachable:
                assert policy[state, i] == 0
                continue

            def integrand(x, i=i, cost=cost, reachable=reachable):
                return norm.pdf(x) * np.prod([norm.sf(x + (cost[i] - cost[j]) / sigma) for j in reachable if j != i])

            assert policy[state, i] == pytest.approx(quad(integrand, -12, 12, epsabs=1e-12, limit=200)[0], abs=1e-9)


def test_a_human_without_noise_takes_the_best_cell_and_flips_a_coin_between_equals():
    policy, s = drivers.human_policy(0.0), road.states()
    for state in (0, 500, 1000):
        cost = np.append(CELL_COST, np.inf)[s.ahead[state]]
        np.testing.assert_allclose(policy[state], (cost == cost.min()) / (cost == cost.min()).sum())


def test_a_drive_costs_what_the_problem_says():
    """Roads drawn and driven one by one against the exact expectation."""
    mdp = lane_driving(control_cost=0.2, switch_cost=0.1, traffic="light")
    plan = cede.solve(mdp)
    rng = np.random.default_rng(1)
    costs = [drive(mdp, plan.policy, road.sample_road(11, "light", rng), rng).cost for _ in range(2500)]
    expected = cede.expected_cost(mdp, plan.policy)
    assert abs(np.mean(costs) - expected) < 4 * np.std(costs) / np.sqrt(len(costs))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: riverswim(agents=[0.5, 1.5]), r"riverswim: agents\[1\] is 1.5, must be a probability"),
        (lambda: riverswim(version="thames"), "riverswim: version is 'thames', must be one of 'osband', 'strehl-littman'"),
        (lambda: riverswim(macro=0), "riverswim: macro is 0, must be an integer from 1 to 10"),
        (lambda: lane_driving(traffic="rush"), "lane_driving: traffic is 'rush', must be one of 'no-car', 'light', 'heavy'"),
        (lambda: lane_driving(traffic=[1, 1, 0]), "lane_driving: traffic sums to 2, must be 1"),
        (lambda: lane_driving(sigma=-1), "human_policy: sigma is -1.0, must be a finite number of at least 0"),
        (
            lambda: drive(lane_driving(), np.zeros((10, 1152, 2), int), road.sample_road(3)),
            "drive: the number of rows of the road is 3",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nobody_finishes_the_relay_alone_and_the_right_runner_in_each_section_is_best():
    mdp = relay(agents=3, section=2, horizon=60)
    plan = cede.solve(mdp)
    own = np.append(np.arange(6) // 2, 0)  # who can cross each cell; in the last state all are equal
    assert cede.expected_cost(mdp, np.broadcast_to(own[:, None], (60, 7, 3))) == pytest.approx(
        cede.expected_cost(mdp, plan), rel=1e-9
    )
    alone = [cede.expected_cost(mdp, np.full((60, 7, 3), d)) for d in range(3)]
    assert cede.expected_cost(mdp, plan) < 9
    assert min(alone) > 59
    with pytest.raises(ValueError, match="relay: agents is 0, must be"):
        relay(agents=0)
