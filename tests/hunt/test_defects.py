"""What hunts have found, each mended at its root: these tests failed before."""

import copy
import csv
import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from typer.testing import CliRunner

import cede
from cede._base import archive, check
from cede._base.archive import load_arrays, replace_whole, write_arrays
from cede._base.interrupts import interrupts_later
from cede.beliefs.belief import Belief
from cede.beliefs.scale import StepDown
from cede.cli import app
from cede.learners.files import SCHEMA
from cede.learners.options import BeliefNames, ForgetRules, GreedyBackups
from cede.learners.promises import ShareLimits
from cede.planning.flatten import flatten
from cede.planning.passes import Plan
from cede.problem.takeover import Modes
from cede.rows.stored import Counts
from cede.rows.working import count
from cede.steps.step import Episode
from hunt.calls import digest
from hunt.catalogue import episode, mdp, policies, somewhere, task
from hunt.files import bytes_of, checkpointed, run_to
from problems import random_mdp
from reference import occupancy_lp

# ------------------------------------------------------------------------------------------------- 1, 2: forged files


def forged(data, kinds, change, schema=SCHEMA):
    """The bytes of a file after a change of its header and arrays, with a right checksum."""
    header, arrays = load_arrays(data, kinds, schema)
    change(header, arrays)
    buffer = io.BytesIO()
    write_arrays(buffer, header.pop("kind"), header.pop("schema"), header, arrays)
    return buffer.getvalue()


def test_agents_that_act_by_one_policy_vary_alike():
    """A segmentation fault: the steps of a hand-over had no table of their own for each time step."""

    def vary(header, arrays):
        header["task"]["varies_with"][-1] = "time"

    data = bytes_of(cede.ucrl2_mc(mdp(delay=1).task))
    with pytest.raises(cede.UnreadableFile, match=r"varies_with\[2\] is 'time', must be None, as of the policy that it acts by"):
        cede.load(forged(data, "learner", vary))


@pytest.mark.parametrize(
    ("modes", "varies_with", "message"),
    [
        (Modes(("a", "b"), (0, 1, 1), (0, 1, 1), (0, 1, 1)), [None, None, "time"], r"varies_with\[2\] is 'time', must be None"),
        (Modes(("a", "b"), (0, 1, 1), (0, 1, 1), (0, 1, 1)), [None, "prev_agent", "prev_agent"], "must be None or 'time'"),
        (Modes(("a", "x"), (0, 1, 1), (0, 1, 1), (0, 1, 1)), None, "the names in modes.tables is .*, must be different"),
        (Modes(("a", "b"), (0, 1), (0, 1), (0, 1)), None, "the number of agents of modes is 2, must be 3"),
        ("modes", None, "modes is 'modes', must be a Modes"),
    ],
)
def test_modes_are_checked(modes, varies_with, message):
    with pytest.raises(ValueError, match=message):
        cede.Task(np.zeros((2, 2)), ["a", "b", "c"], 3, modes=modes, varies_with=varies_with)


@pytest.mark.parametrize("name", ["planned", "fresh"])
def test_a_forged_checkpoint_is_refused(name, tmp_path):
    """A segmentation fault: the number of the plan's episode came from the file."""
    from cede.fleet.checkpoint import KIND
    from cede.fleet.checkpoint import SCHEMA as CHECKPOINT

    def spoil(header, arrays):
        arrays[f"groups/0/{name}"][:] = np.iinfo(np.int64).max

    (tmp_path / "run.npz").write_bytes(forged(checkpointed(), KIND, spoil, CHECKPOINT))
    with pytest.raises(cede.UnreadableFile, match=f"run.npz: cannot be read, .* {name} is impossible"):
        run_to(tmp_path / "run.npz", 6, True)


@pytest.mark.parametrize("value", [None, "x", 2**63, float("nan"), -1])
@pytest.mark.parametrize("name", ["environment_episodes", "groups", "done"])
def test_a_forged_number_of_a_checkpoint_is_refused(name, value, tmp_path):
    from cede.fleet.checkpoint import KIND
    from cede.fleet.checkpoint import SCHEMA as CHECKPOINT

    data = forged(checkpointed(), KIND, lambda header, arrays: header.update({name: value}), CHECKPOINT)
    (tmp_path / "run.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"run\.npz"):
        run_to(tmp_path / "run.npz", 6, True)


def test_more_counts_than_steps_are_refused():
    learner = cede.ucrl2_mc(task())
    cede.simulate(mdp(), learner, 3, progress=False)

    def more(header, arrays):
        at = next(i for i in range(2) if arrays[f"state/counts/{i}/number"].size)  # one of the two agents
        arrays[f"state/counts/{at}/number"][0] += 100

    with pytest.raises(cede.UnreadableFile, match=r"the sum of the counts of agent/.* is 1\d\d, must be possible in 3 episodes"):
        cede.load(forged(bytes_of(learner), "learner", more))
    counts = learner.counts
    with pytest.raises(ValueError, match="the sum of the counts of environment is 12, must be possible in 1 episodes of 4 steps"):
        cede.Learner(task(), learner.settings, counts=replace(counts, environment_episodes=1)).plan  # noqa: B018


# ------------------------------------------------------------------------------------------------- 3: units of cost


def in_units(problem, unit, extra=0.0):
    """The same problem with all costs in another unit, and a first state that costs more."""
    environment, cost = problem.environment, problem.environment.cost * unit
    cost = np.concatenate([cost[:1] + extra, cost[1:]])
    agents = [replace(agent, control_cost=agent.control_cost * unit) for agent in problem.team.agents]
    team = cede.Team(agents, problem.team.switch_cost * unit)
    return cede.TwoLayerMDP(
        cede.Environment(environment.transition, cost, environment.start), team, problem.horizon, problem.start_agent
    )


def limits_of(seed, n):
    rng = np.random.default_rng(seed)
    middle = rng.dirichlet(np.ones(n))
    return np.maximum(0, middle - rng.random(n) * 0.3), np.minimum(1, middle + rng.random(n) * 0.3)


@pytest.mark.parametrize("unit", [1e-9, 1e-8, 1e-6, 1e-3, 1.0, 1e6, 1e12])
def test_the_least_cost_scales_with_the_unit(unit):
    """In small units a mixture was returned that cost up to 21 times too much; in large ones an assertion failed."""
    at_a = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    environment = cede.Environment(np.ones((1, 2, 1)), unit * np.array([[0.0, 1.0]]), [1.0])
    agents = [cede.Agent("a", at_a, varies_with="time"), cede.Agent("b", at_a[::-1], varies_with="time")]
    found = cede.solve(cede.TwoLayerMDP(environment, cede.Team(agents), 2), at_most={"a": 0.6})
    assert found.cost == 0.0
    for seed in range(8):
        problem = random_mdp(seed, n_agents=2 + seed % 2)
        least, most = limits_of(seed, problem.task.n_agents)
        names = problem.task.agents
        given = {"at_most": dict(zip(names, most, strict=True)), "at_least": dict(zip(names, least, strict=True))}
        got = cede.solve(in_units(problem, unit), **given)
        assert got.cost / unit == pytest.approx(occupancy_lp(problem, least, most), rel=1e-9, abs=1e-9)
        assert (got.shares >= least - 1e-9).all()
        assert (got.shares <= most + 1e-9).all()


@pytest.mark.parametrize("extra", [1e6, 1e7])
def test_one_dear_state_does_not_blur_the_others(extra):
    for seed in range(8):
        problem = in_units(random_mdp(seed, n_agents=2), 1.0, extra)
        least, most = limits_of(seed, 2)
        names = problem.task.agents
        given = {"at_most": dict(zip(names, most, strict=True)), "at_least": dict(zip(names, least, strict=True))}
        got = cede.solve(problem, **given)
        assert got.cost <= occupancy_lp(problem, least, most) * (1 + 1e-9) + 1e-9
        assert got.cost == pytest.approx(lower_bound(problem, got.prices, least, most), rel=1e-11)


def lower_bound(problem, prices, least, most):
    """What any mixture within the limits costs at least, by any prices: weak duality, with an exact plan for the priced problem."""
    agents = [replace(a, control_cost=a.control_cost + price) for a, price in zip(problem.team.agents, prices, strict=True)]
    team = cede.Team(agents, problem.team.switch_cost)
    dearer = cede.TwoLayerMDP(problem.environment, team, problem.horizon, problem.start_agent)
    allowed = np.maximum(prices, 0) @ most - np.maximum(-prices, 0) @ least
    return cede.expected_cost(dearer, cede.solve(dearer)) - problem.horizon * allowed


@pytest.mark.parametrize("power", [-30, 40])
@pytest.mark.parametrize("way", ["plain", "limits", "baseline", "bernstein", "sampling", "greedy planning"])
def test_learners_do_the_same_in_any_unit(way, power):
    """Powers of two scale all numbers without rounding, so every choice and every share must be the same, bit for bit."""
    told = {"limits": {"at_most": {"agent 0": 0.4}}, "baseline": {"baseline": 0}, "bernstein": {"belief": "bernstein"}}
    told |= {"greedy planning": {"planning": "greedy"}}
    histories = []
    problem = random_mdp(3, n_states=4, n_actions=2, n_agents=2, horizon=4)
    positive = cede.Environment(problem.environment.transition, np.abs(problem.environment.cost), problem.environment.start)
    agents = [replace(agent, control_cost=abs(agent.control_cost)) for agent in problem.team.agents]
    problem = cede.TwoLayerMDP(positive, cede.Team(agents, problem.team.switch_cost), 4, problem.start_agent)
    for unit in (1.0, 2.0**power):
        scaled = in_units(problem, unit)
        learner = (cede.posterior_sampling if way == "sampling" else cede.ucrl2_mc)(scaled.task, **told.get(way, {}), seed=2)
        histories.append((cede.simulate(scaled, learner, 120, seed=1, progress=False), unit))
    (one, _), (two, unit) = histories
    np.testing.assert_array_equal(one.control, two.control)
    np.testing.assert_array_equal(one.expected_cost * unit, two.expected_cost)


# ------------------------------------------------------------------------------------------------- 4: saves


def test_saves_at_once_do_not_tear_the_file(tmp_path):
    path, learners = tmp_path / "one.cede", [cede.ucrl2_mc(task(), seed=seed) for seed in range(3)]
    wanted, wrong = {digest(one) for one in learners}, []

    def save(learner):
        try:
            for _ in range(60):
                learner.save(path)
                if digest(cede.load(path)) not in wanted:
                    wrong.append("torn")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=save, args=(learner,)) for learner in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [found.name for found in tmp_path.iterdir()] == ["one.cede"]


def test_leftovers_of_killed_saves_are_removed_and_those_of_living_ones_are_not(tmp_path):
    (tmp_path / f".one.cede.{'0' * 16}.cede-partial").write_bytes(b"left by a killed process")
    (tmp_path / ".mine.partial").write_bytes(b"not one of ours")
    code = "import sys, time\nfrom pathlib import Path\nfrom cede._base.archive import new_partial\n"
    code += "path, file = new_partial(Path(sys.argv[1]))\nprint(path, flush=True)\ntime.sleep(60)"
    living = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "two.cede")], stdout=subprocess.PIPE, text=True)
    with living.stdout as out:
        partial = Path(out.readline().strip())
    cede.ucrl2_mc(task()).save(tmp_path / "one.cede")
    assert {found.name for found in tmp_path.iterdir()} == {"one.cede", ".mine.partial", partial.name}
    os.kill(living.pid, signal.SIGKILL)
    living.wait()
    cede.ucrl2_mc(task()).save(tmp_path / "one.cede")
    assert {found.name for found in tmp_path.iterdir()} == {"one.cede", ".mine.partial"}


def test_a_name_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("x" * 250)
    cede.ucrl2_mc(task()).save(path)
    assert isinstance(cede.load(path), cede.Learner)


def test_a_failed_save_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"one\.cede"):
        cede.ucrl2_mc(task()).save(tmp_path / "nowhere" / "one.cede")

    def fail(file):
        file.write(b"half")
        raise RuntimeError

    (tmp_path / "one").write_text("before")
    with pytest.raises(RuntimeError):
        replace_whole(tmp_path / "one", fail)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("one", "before")]


# ------------------------------------------------------------------------------------------------- 5: public data


def test_a_belief_whose_rows_point_outside():
    """A segmentation fault in the planner."""
    agents, environment = cede.ucrl2_mc(task()).beliefs
    with pytest.raises(ValueError, match=r"Belief: row\[0, 0\] is 1000000, must be an integer from 0 to 5"):
        Belief(agents.centre, agents.width, np.full_like(agents.row, 10**6))
    with pytest.raises(ValueError, match=r"Belief: the shape of width is \(2,\), must be"):
        Belief(agents.centre, agents.width[:2], agents.row)
    with pytest.raises(ValueError, match=r"Belief: width\[0\] is nan"):
        Belief(agents.centre, np.full_like(agents.width, np.nan), agents.row)
    for array in (agents.width, agents.row, agents.centre.column, environment.centre.start):
        assert not array.flags.writeable


def test_what_is_public_is_read_only():
    learner = cede.ucrl2_mc(task())
    cede.simulate(mdp(), learner, 2, progress=False)
    with pytest.raises(ValueError, match="read-only"):
        learner.plan.policy[:] = 30000
    counts, episode = learner.counts, cede.rollout(mdp(), learner.plan)
    for array in (counts.agents.data, counts.environment.indices, episode.states, episode.costs, learner.plan.value):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    mine = np.zeros((4, 3, 2), dtype=np.int16)
    plan = Plan(mine, np.zeros((5, 3, 2)))
    mine[:] = 99
    assert plan.policy.max() == 0


def test_counts_and_episodes_check_themselves():
    good = cede.ucrl2_mc(task()).counts
    with pytest.raises(ValueError, match="Counts: a count of agents is -1"):
        Counts.of(task(), sp.csr_array(-np.ones((6, 2), dtype=int)), good.environment, 1)
    with pytest.raises(ValueError, match="Counts: episodes is -1, must be an integer"):
        replace(good, episodes=-1)
    with pytest.raises(ValueError, match=r"Episode: actions is .*, must be a list of integers"):
        Episode([0, 1], [0], [0], [0.5], [0.0])
    with pytest.raises(ValueError, match=r"Episode: prev_agents\[1\] is 0, must be 1, who acted in the step before"):
        Episode([0, 1, 2], [0, 0], [1, 1], [0, 0], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"Episode: the number of states - 1, .* is \(2, 1, 1, 1, 1\), must be equal"):
        Episode([0, 1, 2], [0], [1], [0], [0.0])
    with pytest.raises(ValueError, match=r"Plan: policy\[0, 0, 0\] is 7, must be an agent from 0 to 1"):
        Plan(np.full((4, 3, 2), 7), np.zeros((5, 3, 2)))


# ------------------------------------------------------------------------------------------------- 6: names are data

NAMES = ["human [x]", "[/b]", "\x1b[2Jhuman", r"$\undefined$", "<script>alert(1)</script>", "_hidden", "a\nb", "[bold red]robot"]


def named(name):
    agents = [cede.Agent("machine", policies()["machine"]), cede.Agent(name, policies()["human"], 0.25)]
    problem = cede.TwoLayerMDP(
        cede.Environment(mdp().environment.transition, mdp().environment.cost, [1, 0, 0], state_names=[name, "b", "c"]),
        cede.Team(agents, 0.125),
        4,
    )
    learner = cede.ucrl2_mc(problem.task)
    cede.simulate(problem, learner, 5, progress=False)
    return problem, learner


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name, tmp_path, monkeypatch):
    problem, learner = named(name)
    path = tmp_path / "one.cede"
    learner.save(path)
    monkeypatch.setenv("COLUMNS", "300")
    shown = CliRunner().invoke(app, ["show", str(path)])
    assert shown.exit_code == 0, shown.output
    assert check.printable(name) in shown.output
    assert "\x1b" not in shown.output
    explanation = cede.explain(learner, 0, 0, 0)
    assert "\x1b" not in str(explanation)
    assert "\n" not in str(explanation)
    for drawn in (explanation.draw(tmp_path / "why.png"), cede.insight.summarise(learner).draw(tmp_path / "who.svg")):
        assert drawn.stat().st_size > 1000
    assert plt.get_fignums() == []
    environment = cede.gym.SwitchingEnv(problem, render_mode="rgb_array")
    environment.reset(seed=1)
    environment.step(1)
    assert environment.render().shape[2] == 3


@pytest.mark.parametrize("name", NAMES)
def test_names_in_progress_bars(name, monkeypatch):
    from cede._base.progress import Progress

    out = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=out, width=300))
    bar = Progress(name, 10)
    with bar:
        bar.next_look = 0.0
        bar.advance(3)
    assert check.printable(name) in out.getvalue()


def test_a_tag_in_a_table_does_not_reach_the_page(tmp_path):
    from studies.report import write_report

    results = Path(__file__).parents[2] / "studies" / "results"
    text = (results / "single-team.csv").read_text().splitlines()
    column = text[0].split(",").index("base_seed")
    rows = list(csv.reader(text[1:]))
    for row in rows:
        row[column] = "<script>alert(1)</script>"
    with (tmp_path / "single-team.csv").open("w", newline="") as file:
        csv.writer(file).writerows([text[0].split(","), *rows])
    (tmp_path / "single-team.png").write_bytes(b"picture")
    page = write_report(tmp_path).read_text()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


# ------------------------------------------------------------------------------------------------- 7: paths


@pytest.mark.parametrize("where", ["", "/nowhere/at/all.cede", "/"])
def test_learn_tries_the_path_before_it_learns(where, monkeypatch):
    monkeypatch.setattr(cede, "simulate", lambda *_, **__: pytest.fail("it has begun to learn"))
    result = CliRunner().invoke(app, ["learn", "riverswim", "--episodes", "3", "--save", where])
    assert result.exit_code == 2
    assert "learn: --save is" in result.output


def test_learn_shows_its_results_even_if_the_disk_is_full_at_the_end(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "one.cede")

    monkeypatch.setattr(cede.Learner, "save", full)
    result = CliRunner().invoke(app, ["learn", "riverswim", "--episodes", "3", "--save", str(tmp_path / "one.cede")])
    assert result.exit_code == 2
    assert "best possible" in result.output
    assert "No space left on device" in result.output


def test_no_damage_ends_in_an_error_of_the_operating_system(tmp_path):
    """Damaged offsets in an archive made the reader seek to before the file."""
    data = bytearray(bytes_of(cede.ucrl2_mc(task())))
    end = data.rindex(b"PK\x05\x06")
    for value in (0, 1, 2**31, 2**32 - 1, len(data) * 3):
        broken = data.copy()
        broken[end + 16 : end + 20] = int(value).to_bytes(4, "little")
        broken[end + 12 : end + 16] = int(value).to_bytes(4, "little")
        (tmp_path / "broken.cede").write_bytes(broken)
        for source in (tmp_path / "broken.cede", bytes(broken)):
            with pytest.raises(cede.UnreadableFile):
                cede.load(source)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cede.load(tmp_path / "nowhere")
    with pytest.raises(cede.UnreadableFile, match="is a directory, must be a learner or fleet of cede"):
        cede.load(tmp_path)


# ------------------------------------------------------------------------------------------------- 8: wrong objects


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cede.solve(None), "solve: mdp is None, must be a TwoLayerMDP"),
        (lambda: cede.simulate(None, cede.ucrl2_mc(task()), 5), "simulate: mdp is None, must be a TwoLayerMDP"),
        (lambda: cede.simulate(mdp(), None, 5), "simulate: learner is None, must be a Learner"),
        (
            lambda: cede.ucrl2_mc(task(), known_agents=["human"]),
            "ucrl2_mc: known_agents is .*, must be policies by the agents' names",
        ),
        (lambda: cede.ucrl2_mc(task(), alpha=np.nan), "ucrl2_mc: alpha is nan, must be a finite number of at least 0"),
        (lambda: cede.evaluate(mdp(), None), "evaluate: policy is None, must be an array of integers"),
        (lambda: cede.Agent("a", np.ma.masked_array([[1.0, 0.0]], mask=[[0, 1]])), "Agent 'a': policy is masked in some places"),
        (lambda: cede.Agent("a", [[1.0, 0.0]], np.complex128(1 + 1j)), "Agent 'a': control_cost is .*, must be a finite number"),
        (lambda: Belief.of(sp.csr_array(np.eye(2) * 1j), 0.0, (2, 1)), "Belief.of: centre is of shape .*complex"),
        (lambda: cede.solve(mdp(), at_most={"human": 0.5}).draw(-1), "Mixture.draw: seed is -1, must be an integer of at least 0"),
        (lambda: count(task(), [], flat=1), "count: flat is 1, must be True or False"),
        (lambda: cede.Fleet(None), "Fleet: learners is None, must be at least one Learner"),
        (lambda: cede.ucrl2_mc(task()).save(3), "save: path is 3, must be the path of a file"),
        (lambda: cede.load(3), "load: source is 3, must be the path of a file"),
        (lambda: cede.oracle(None), "oracle: mdp is None, must be a TwoLayerMDP"),
        (lambda: flatten(3), "flatten: problem is 3, must be a TwoLayerMDP or a Task"),
        (lambda: cede.insight.summarise(None), "summarise: learner is None, must be a Learner"),
        (lambda: cede.rollout(mdp(), cede.solve(mdp()), "x"), "rollout: seed is 'x', must be an integer of at least 0"),
    ],
)
def test_wrong_objects_get_clear_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["support-desk", "--control-cost", "1"], "learn: --control-cost is given, must be left out in support-desk"),
        (["riverswim", "--learn-machine"], "learn: --learn-machine is given, must be left out in riverswim"),
        (["lane-driving", "--agents", "0.1,0.2"], "learn: --agents is given, must be left out in lane-driving"),
        (["riverswim", "--radii", "kl"], "learn: --radii is given, must be left out with recommended"),
        (["riverswim", "--alpha", "0.2"], "learn: --alpha is given, must be left out without --baseline"),
        (["riverswim", "--method", "greedy", "--delta", "0.2"], "learn: --delta is given, must be left out with greedy"),
    ],
)
def test_options_without_effect_are_refused(options, message):
    result = CliRunner().invoke(app, ["learn", *options, "--episodes", "2"])
    assert result.exit_code == 2
    assert message in result.output


def test_a_small_type_of_seed_compiles_nothing():
    """`solve(seed=np.int8(1))` compiled the planner for that type, for 20 seconds."""
    from cede.planning.backup import run_backward

    cede.solve(mdp(), seed=1)
    before = len(run_backward.entry.signatures)
    wanted = cede.solve(mdp(), seed=1)
    for seed in (np.int8(1), np.uint16(1), np.int64(1)):
        np.testing.assert_array_equal(cede.solve(mdp(), seed=seed).policy, wanted.policy)
        cede.solve(mdp(), at_most={"human": 0.3}, seed=seed)
    assert len(run_backward.entry.signatures) == before


# ------------------------------------------------------------------------------------------------- 9: half done


def test_a_refused_end_counts_nothing():
    learner = cede.ucrl2_mc(task())
    learner.observe(0, 0, 0, 1, 1, 1)
    before = digest(learner)
    for wrong in (np.array([True, False]), 1, "yes"):
        with pytest.raises(ValueError, match=r"end_episode: replan is .*, must be True or False"):
            learner.end_episode(replan=wrong)
    assert digest(learner) == before
    learner.end_episode(replan=np.True_)
    assert learner.episode == 2


def test_several_runs_of_one_learner_at_once_are_refused():
    """Three ran, and the episodes of two were lost without a word."""
    learner, done, refused = cede.ucrl2_mc(task()), [], []
    together = threading.Barrier(3)

    def run():
        together.wait()
        try:
            cede.simulate(mdp(), learner, 3000, evaluate_every=3000, progress=False)
            done.append(3000)
        except ValueError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.episode - 1 == sum(done) > 0
    assert len(done) + len(refused) == 3
    for text in refused:
        assert text.startswith("simulate: a learner is used during a run, must be used before or after it")


def test_a_learner_in_a_run_is_not_used_from_its_own_progress():
    learner, said = cede.ucrl2_mc(task()), []

    def look(done):
        with pytest.raises(ValueError, match="Learner: choose is used during a run"):
            learner.choose(0, 0, 0)
        with pytest.raises(ValueError, match="simulate: a learner is used during a run"):
            cede.simulate(mdp(), learner, 2)
        said.append(learner.episode)

    cede.simulate(mdp(), learner, 5, progress=look)
    assert said
    assert learner.episode == 6
    learner.choose(0, 0, 0)


def test_a_fleet_in_a_run_keeps_its_teams():
    fleet = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(2)])

    def change(done):
        for call in (
            lambda: fleet.welcome(task()),
            lambda: fleet.remove(0),
            lambda: fleet.save(somewhere()),
            fleet.learners[0].replan,
        ):
            with pytest.raises(ValueError, match="used during a run"):
                call()

    cede.simulate_fleet([mdp()] * 2, fleet, 3, progress=change)
    assert fleet.environment_episodes == 6
    copies = copy.deepcopy(fleet)
    assert copies.learners[0].turn is copies.turn is not fleet.turn


def test_calls_of_several_threads_wait_for_one_another():
    fleet = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(3)])
    episode, wrong = cede.rollout(mdp(), cede.solve(mdp())), []

    def work(learner):
        try:
            for _ in range(40):
                learner.learn_from([episode], progress=False)
                learner.choose(0, 0, 0)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(learner,)) for learner in fleet for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [learner.episode for learner in fleet] == [81] * 3
    assert fleet.environment_episodes == 240
    assert fleet.environment.sum() == 240 * 4


# ------------------------------------------------------------------------------------------------- found by the hunt itself


def test_an_interrupt_while_a_table_grows_leaves_it_whole():
    """Memory was corrupted: an interrupt came between two arrays of a table that was made longer, and the round was finished."""
    from cede._kernels.tables import Table

    table, before = Table.empty(3, 4), signal.getsignal(signal.SIGALRM)
    places = []

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, stop)
    try:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + len(places) % 7 * 0.0001)
                while True:
                    table.lengthen(1)
                    if len(table.column) > 10**5:
                        table = Table.empty(3, 4)
            except KeyboardInterrupt:
                places.append(len(table.column))
            for name in ("column", "weight"):
                address, length = getattr(vars(table)["_memory"], name)[4:6]
                held = (*vars(table).values(), *vars(table)["_next"].values())
                alive = {array.ctypes.data: len(array) for array in held if isinstance(array, np.ndarray)}
                assert alive[address] == length
            assert len(table.weight) >= len(table.column)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(places) > 50


def with_an_interrupt(came):
    with interrupts_later():
        signal.raise_signal(signal.SIGINT)
        came.append("reached")


def test_signals_wait_and_are_not_lost():
    came, before = [], signal.getsignal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, lambda *_: came.append("handled"))
    try:
        with interrupts_later():
            signal.raise_signal(signal.SIGALRM)
            with interrupts_later():
                signal.raise_signal(signal.SIGALRM)
            assert came == []
        assert came == ["handled"]  # once for each signal, as the operating system does it
        with pytest.raises(KeyboardInterrupt):
            with_an_interrupt(came)
        assert came[-1] == "reached"
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("name", "value"), [("fresh", 1), ("planned", 5)])
def test_a_checkpoint_of_a_plan_that_there_is_not_is_refused(name, value, tmp_path):
    """A segmentation fault, found by the hunt: the file said that a team had a plan, and it had none."""
    from cede.fleet.checkpoint import KIND
    from cede.fleet.checkpoint import SCHEMA as CHECKPOINT

    _, arrays = load_arrays(checkpointed(), KIND, CHECKPOINT)
    groups = [i for i in range(9) if f"groups/{i}/planned" in arrays and f"groups/{i}/policy" not in arrays]
    assert groups
    for group in groups:

        def spoil(header, arrays, group=group):
            arrays[f"groups/{group}/{name}"][:] = value

        (tmp_path / "run.npz").write_bytes(forged(checkpointed(), KIND, spoil, CHECKPOINT))
        with pytest.raises(cede.UnreadableFile, match=r"run\.npz: cannot be read, .* of a plan that there is not"):
            run_to(tmp_path / "run.npz", 6, True)


def test_settings_that_no_learner_has_are_refused():
    """Memory was corrupted: a file could ask for samples of a table that has no room for them."""
    ucrl2, plain = cede.ucrl2(task()).settings, cede.ucrl2_mc(task()).settings
    wrong = [
        (ucrl2, {"prior": 1.0}),
        (ucrl2, {"promise": ShareLimits(np.zeros(2), np.ones(2))}),
        (ucrl2, {"forgetting": ForgetRules({}, cede.HalfLife(5.0))}),
        (ucrl2, {"form": "bernstein"}),
        (plain, {"prior": 1.0}),
        (plain, {"belief": BeliefNames("appendix")}),
        (plain, {"belief": None}),
        (cede.posterior_sampling(task()).settings, {"plans": GreedyBackups()}),
    ]
    for settings, change in wrong:
        with pytest.raises((ValueError, TypeError), match=r"must be|unexpected keyword argument"):
            replace(settings, **change)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_copies_are_read_only_too(way):
    """A copy of an array is writable: kernels trusted what was changed in it."""
    learner = cede.fixed(task(), 1)
    _, environment = cede.ucrl2_mc(task()).beliefs
    arrays = [
        way(episode()).states,
        way(environment).row,
        way(environment).centre.column,
        way(learner).settings.policy,
        way(cede.solve(mdp())).policy,
        way(mdp()).environment.transition.indices,
        way(task()).env_cost,
        way(mdp().structure).environment.to,
        task().layout.slot,
        mdp().environment.cumulated_start,
        mdp().structure.environment.n_outcomes,
    ]
    assert [array.flags.writeable for array in arrays] == [False] * len(arrays)
    assert way(mdp()).task.agents == task().agents
    assert way(mdp(delay=1).task).modes == mdp(delay=1).task.modes


def test_what_a_learner_is_made_of_cannot_be_replaced():
    learner = cede.ucrl2_mc(task())
    for name in ("task", "settings", "seed"):
        with pytest.raises(AttributeError):
            setattr(learner, name, None)


def test_special_files_are_left_alone(tmp_path):
    """Reading from a pipe waited for ever; saving to a device replaced it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(cede.UnreadableFile, match="pipe: is no regular file"):
        cede.load(tmp_path / "pipe")
    with pytest.raises(OSError, match="Is no regular file"):
        cede.ucrl2_mc(task()).save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_save_keeps_links_and_permissions(tmp_path):
    learner = cede.ucrl2_mc(task())
    learner.save(tmp_path / "one.cede")
    (tmp_path / "one.cede").chmod(0o600)
    (tmp_path / "link").symlink_to("one.cede")
    cede.ucrl2_mc(task(), seed=5).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "one.cede").stat().st_mode & 0o777 == 0o600
    assert cede.load(tmp_path / "one.cede").seed == 5


def test_where_files_cannot_be_locked_saves_work_and_leftovers_stay(tmp_path, monkeypatch):
    def without_locks(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    living = tmp_path / ".a.cede.0123456789abcdef.cede-partial"
    living.write_bytes(b"of a writer that may be alive")
    monkeypatch.setattr(archive.fcntl, "flock", without_locks)
    archive.write_whole(tmp_path / "b.txt", "text")
    assert (tmp_path / "b.txt").read_text() == "text"
    assert living.exists()


def test_leftovers_of_any_name_are_removed(tmp_path):
    (tmp_path / f".a\nb.{'0' * 16}.cede-partial").write_bytes(b"left")
    cede.ucrl2_mc(task()).save(tmp_path / "one.cede")
    assert [found.name for found in tmp_path.iterdir()] == ["one.cede"]


def test_no_episode_is_lost_while_a_learner_joins_and_leaves():
    fleet, learner, done, stop = cede.Fleet([cede.ucrl2_mc(task())]), cede.ucrl2_mc(task(), seed=1), [], []
    one = episode()

    def work():
        while not stop:
            learner.learn_from([one], progress=False)
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(15):  # each time it takes a copy of what the fleet knows with it, and adds it again
        fleet.add(learner)
        fleet.remove(learner)
    stop.append(1)
    thread.join()
    assert learner.episode - 1 == len(done)


def test_what_is_forgotten_was_counted(tmp_path):
    """A forged file may say that steps were seen which were not: forgetting them must not take counts below zero."""
    learner = cede.ucrl2_mc(task(), forget=cede.Window(2), forget_environment=cede.Window(2))
    cede.simulate(mdp(), learner, 4, progress=False)
    learner.save(tmp_path / "a.cede")
    header, arrays = load_arrays(tmp_path / "a.cede", "learner", SCHEMA)
    arrays["state/agents_recent"] = np.zeros_like(arrays["state/agents_recent"])
    arrays["state/environment_recent"] = np.full_like(arrays["state/environment_recent"], 5)
    about = {name: value for name, value in header.items() if name not in ("kind", "schema")}
    archive.save_arrays(tmp_path / "b.cede", "learner", SCHEMA, about, arrays)
    forged = cede.load(tmp_path / "b.cede")
    cede.simulate(mdp(), forged, 5, progress=False)
    for layer in (forged.counts.agents, forged.counts.environment):
        assert (layer.data > 0).all()


def test_an_episode_has_steps():
    with pytest.raises(ValueError, match="Episode: the number of steps is 0, must be at least 1"):
        Episode([0], [], [], [], [])


def test_a_name_that_two_states_have_is_refused_in_a_log():
    named = cede.Task(np.ones((3, 2)), ["m", "h"], 4, state_names=["a", "a", "b"])
    log = {"state": ["a"], "agent": ["m"], "action": [0], "next_state": ["b"], "t": [0]}
    with pytest.raises(ValueError, match=r"state\[0\] is 'a', must be a name that only one has"):
        cede.greedy(named).learn_from(log)
    assert cede.greedy(named).learn_from({**log, "state": [1]}, progress=False) == 1


@pytest.mark.parametrize("power", [0, 55, 200])
def test_limits_hold_where_all_costs_are_equal(power):
    agents = [cede.Agent(name, np.ones((1, 1))) for name in ("machine", "human")]
    environment = cede.Environment(np.ones((1, 1, 1)), [[2.0**power]], [1.0])
    problem = cede.TwoLayerMDP(environment, cede.Team(agents), 4)
    learner = cede.ucrl2_mc(problem.task, at_most={"human": 0.1})
    history = cede.simulate(problem, learner, 400, progress=False)
    assert history.control[:, 1].mean() / 4 < 0.15


def test_costs_too_small_to_square_are_refused():
    with pytest.raises(ValueError, match="Task: the largest cost is 1e-150, must be 0, or at least 1e-100 in size"):
        cede.Task(np.full((2, 2), 1e-150), ["a"], 3)


def test_a_refused_run_leaves_the_checkpoint_of_another_alone(tmp_path):
    point = cede.Checkpoint(tmp_path / "run.npz", seconds=0)

    def run(episodes, checkpoint, progress=False):
        fleet = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(2)])
        return cede.simulate_fleet([mdp()] * 2, fleet, episodes, jobs=1, checkpoint=checkpoint, progress=progress)

    def again(done):
        with pytest.raises(ValueError, match="is there already"):
            run(3, point)

    run(4, point, again)
    assert len(run(6, cede.Checkpoint(tmp_path / "run.npz", resume=True)).regret) == 6


def test_an_engine_serves_one_run_at_a_time():
    engine, refused = cede.engines.Threads(1), []

    def again(done):
        with pytest.raises(ValueError, match="simulate_fleet: engine is in another run"):
            cede.simulate_fleet([mdp()], cede.Fleet([cede.ucrl2_mc(task())]), 2, engine=engine)
        refused.append(done)

    fleet = cede.Fleet([cede.ucrl2_mc(task())])
    cede.simulate_fleet([mdp()], fleet, 3, engine=engine, progress=again)
    assert refused
    assert fleet.environment_episodes == 3


@pytest.mark.parametrize("answer", [0, -1, 5, "x", 1.5])
def test_an_engine_with_odd_shards_is_refused(answer):
    class Odd(cede.engines.Threads):
        def shards(self, n_teams):
            return answer

    fleet = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(2)])
    with pytest.raises(ValueError, match=r"Engine: what shards\(\) answered is .*, must be an integer from 1 to 2"):
        cede.simulate_fleet([mdp()] * 2, fleet, 2, engine=Odd(1), progress=False)


def test_a_run_is_not_copied_or_looked_at_in_the_middle():
    fleet = cede.Fleet([cede.ucrl2_mc(task(), seed=i) for i in range(2)])

    def look(done):
        reads = [lambda: copy.deepcopy(fleet.learners[0]), lambda: pickle.dumps(fleet.learners[0]), lambda: fleet.environment]
        for read in [*reads, lambda: fleet.environment_episodes, lambda: fleet.learners[0].state]:
            with pytest.raises(ValueError, match="used during a run"):
                read()

    cede.simulate_fleet([mdp()] * 2, fleet, 2, progress=look)
    stray = copy.copy(fleet.learners[0])
    stray.learn_from([episode()], progress=False)
    assert fleet.environment_episodes == 4


def test_learning_from_a_log_is_not_entered_twice():
    learner, refused = cede.ucrl2_mc(task()), []

    def meddle(done):
        for call in (lambda: learner.observe(0, 0, 0, 0, 0, 0), lambda: learner.learn_from([episode()])):
            with pytest.raises(ValueError, match="used during a run"):
                call()
        refused.append(done)

    assert learner.learn_from([episode(), episode()], progress=meddle) == 2
    assert refused
    assert learner.counts.environment.sum() == 8


def test_a_schedule_is_asked_once_for_each_episode():
    asked = []

    def moody(k):
        asked.append(k)
        if asked.count(k) > 2:  # once for each layer
            raise RuntimeError
        return 0.5

    learner = cede.ucrl2_mc(task(), scale=moody)
    for _ in range(3):
        learner.choose(0, 0, 0)
        learner.observe(0, 0, 0, 1, 1, 2)
        learner.end_episode()
    _ = learner.plan, learner.beliefs
    assert max(asked.count(k) for k in asked) == 2


def test_two_signals_at_once_are_both_handled():
    came, before = [], signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: came.append("usr1"))
    try:
        with pytest.raises(KeyboardInterrupt):
            with_two_signals()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came == ["usr1"]


def with_two_signals():
    with interrupts_later():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGUSR1)


def test_an_engine_is_free_once_the_run_that_had_it_is_gone():
    """A run that was interrupted right after it had taken its engine kept the engine's id, which the next engine could get."""
    from cede.fleet.grouping import streams_of
    from cede.fleet.run import Run

    engine, fleet = cede.engines.Threads(1), cede.Fleet([cede.ucrl2_mc(task())])
    held = Run([mdp()], fleet.learners, 1, streams_of(0, 1), engine=engine)
    held.claim_engine()
    with pytest.raises(ValueError, match="engine is in another run"):
        cede.simulate_fleet([mdp()], fleet, 1, engine=engine, progress=False)
    del held
    assert len(cede.simulate_fleet([mdp()], fleet, 1, engine=engine, progress=False).regret) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may hit a callback of the garbage collector
def test_a_learner_is_free_after_any_interrupt():
    """An interrupt between two lines left a mark on the learner: it was in a run for ever."""
    learner, before, rng = cede.ucrl2_mc(task()), signal.getsignal(signal.SIGALRM), np.random.default_rng(0)

    def stop(*_):
        raise KeyboardInterrupt

    cede.simulate(mdp(), learner, 1, progress=False)
    signal.signal(signal.SIGALRM, stop)
    until = time.monotonic() + 2
    try:
        while time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + rng.random() * 3e-4)
                cede.simulate(mdp(), learner, 1, progress=False)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    cede.simulate(mdp(), learner, 1, progress=False)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((0, 0.0, False, False), "what env.step returned is .*, must be"),
        ((0, "1", False, False, {}), "the reward of env is '1', must be a finite number"),
        ((0, float("nan"), False, False, {}), "the reward of env is nan"),
        ((0, 0.0, "False", False, {}), "terminated is 'False', must be True or False"),
        ((0, 0.0, False, None, {}), "truncated is None, must be True or False"),
    ],
)
def test_answers_of_environments_are_checked(answer, message):
    import gymnasium

    class Odd(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return answer

    learner = cede.ucrl2_mc(task())
    team = {"machine": policies()["machine"], "human": policies()["human"]}
    with pytest.raises(ValueError, match=message):
        cede.gym.run(Odd(), team, learner, episodes=2, progress=False)
    assert learner.episode == 1
    with pytest.raises(ValueError, match=r"actor 'human': the shape of what it answered is \(3,\)"):
        cede.gym.run(
            Odd(), {**team, "human": lambda s: [0.2, 0.3, 0.5]}, learner, episodes=1, override=lambda *_: 1, progress=False
        )
    with pytest.raises(ValueError, match=r"the number of states of 'human' is \(50,\), must be 3"):
        cede.gym.run(Odd(), {**team, "human": np.full((50, 2), 0.5)}, learner, episodes=1, progress=False)


def test_a_stream_of_bytes_does_not_fill_the_memory():
    stream = io.BytesIO(b"1\n")
    agent = cede.gym.ConsoleAgent("human", ["a", "b"], lambda s: 0, timeout=1, source=stream, target=io.StringIO())
    assert agent.act(0, 0, np.random.default_rng(0)) == 0
    long = cede.gym.ConsoleAgent(
        "human", ["a", "b"], lambda s: 1, timeout=1, source=io.StringIO("9" * 5000 + "\n"), target=io.StringIO()
    )
    assert long.act(0, 0, np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cede.Window(10**5000), "Window: episodes is a int, must be an integer"),
        (lambda: cede.ucrl2_mc(task()).save("\ud800x"), "save: path is .*, must be the path of a file"),
        (lambda: cede.Agent("\ud800", np.ones((1, 1))), "Agent: name is .*, must be a string in UTF-8"),
        (lambda: learn(state=[1e300]), r"state\[0\] is 1e\+300, must be an integer from 0 to 2"),
        (lambda: learn(episode=np.array([{}], dtype=object)), r"episode\[0\] is \{\}, must be a number or a name"),
    ],
)
def test_odd_values_get_clear_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
    assert StepDown(1.0, 0.5, 1e-320, 0.25)(7) == 0.25


def learn(**columns):
    plain = {"state": [0], "agent": [0], "action": [0], "next_state": [1], "t": [0]}
    return cede.greedy(task()).learn_from({**plain, **columns}, progress=False)


def test_columns_of_numpy_integers_are_numbers():
    assert learn(state=np.array([np.int64(2)], dtype=object)) == 1


def test_a_picture_that_cannot_be_written_leaves_no_figure_open(tmp_path):
    learner = cede.ucrl2_mc(task())
    for draw in (cede.explain(learner, 0, 0, 0).draw, cede.insight.summarise(learner).draw):
        with pytest.raises(OSError, match="nowhere"):
            draw(tmp_path / "nowhere" / "x.png")
    assert plt.get_fignums() == []


def test_a_digest_is_of_everything():
    """The hunt compares digests: they must differ where learners differ."""
    one, two = (cede.ucrl2_mc(task(), seed=seed) for seed in (1, 2))
    assert digest(one) != digest(two)
    before = digest(one)
    one.observe(0, 0, 0, 0, 0, 0)
    assert digest(one) != before
    assert json.loads(json.dumps(archive.digest(mdp().environment)))


# ------------------------------------------------------------------------------------------------- hunts of costs, ends and sets


@pytest.mark.parametrize("name", ["cost_range", "enter_cost_range"])
def test_a_range_has_an_order(name):
    """A set of two numbers was taken for the least and the most, in whatever order it came."""
    with pytest.raises(ValueError, match=rf"Task: {name} is \{{1, 2\}}, must be two numbers, the least and the most"):
        cede.Task([[np.nan], [1.0]], ["a"], 2, enter_cost=[np.nan, 0.0], **{"cost_range": (0, 1), name: {1, 2}})


def test_a_cost_that_is_not_known_is_named():
    with pytest.raises(
        ValueError, match=r"Task: cost_range is missing, must be given, .* which is not known, as env_cost\[1, 0\] is"
    ):
        cede.Task([[0.5], [np.nan]], ["a"], 2)
    with pytest.raises(ValueError, match=r"Environment: start\[1\] is 0.5, must be 0: an episode cannot begin in a terminal state"):
        cede.Environment(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [0.5, 0.5], terminal={1})


def test_rewards_need_a_range():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match="task_for: cost_range is None, must be two numbers"):
        cede.gym.task_for(gymnasium.make("FrozenLake-v1"), ["a"], 5, cost_range=None)


def test_the_error_of_a_plan_is_not_negative():
    """A forged file without a horizon: the plan failed when it was first looked at."""
    endless = replace(mdp(), horizon=None, discount=0.75)
    learner = cede.posterior_sampling(endless.task)
    cede.simulate(endless, learner, steps=20, progress=False)

    def negate(header, arrays):
        arrays["state/found"][1] = -1.0

    with pytest.raises(cede.UnreadableFile, match=r"the error of the plan is -1.0, must be at least 0"):
        cede.load(forged(bytes_of(learner), "learner", negate))


def test_an_interrupt_while_an_engine_starts(monkeypatch):
    """It had begun no shard, and handing back what there was failed."""
    problem = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(problem.task)

    def interrupted(self, plans):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cede.engines.Threads, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cede.simulate(problem, learner, 5, progress=False)
    assert learner.episode == 1
    cede.simulate(problem, learner, 5, progress=False)
    assert learner.episode == 6
