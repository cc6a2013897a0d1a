"""Comparisons: paired seeds, the bits of `simulate`, kept runs, statistics, tables that show names as they are, strict studies."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise, product
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.comparison import paired, runs
from cede.comparison.compare import run_study
from cede.comparison.look import look
from cede.comparison.study import read_study
from cede.comparison.table import escaped, make_table

ROOT = Path(__file__).parent.parent.parent
ARRAYS = ("regret", "cost", "switches", "control", "optimum")
WORLDS = {"river": ("riverswim", {"agents": [0.3, 0.7]}), "desk": "support-desk", "teams": "riverswim-team"}
LEARNERS = {
    "recommended": "recommended",
    "scaled": ("ucrl2-mc", {"scale": {"agents": 0.1, "environment": 0.01}}),
    "sampling": lambda task, seed: cede.posterior_sampling(task, seed=seed),
}


def small(**more):
    asked = {"worlds": WORLDS, "learners": LEARNERS, "episodes": 12, "repeats": 3, "seed": 5, "progress": False}
    return cede.compare(**{**asked, **more})


@pytest.fixture(scope="module")
def result():
    return small()


def assert_same(one, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# ------------------------------------------------------------------------------------------------- runs


def test_every_run_is_that_of_simulate(result):
    makes = {
        "recommended": lambda task, seed: cede.recommended(task, seed=seed),
        "scaled": lambda task, seed: cede.ucrl2_mc(task, scale=cede.Scale(0.1, 0.01), seed=seed),
        "sampling": LEARNERS["sampling"],
    }
    worlds = {
        "river": lambda seed: cede.worlds.riverswim(agents=[0.3, 0.7]),
        "desk": lambda seed: cede.worlds.support_desk(),
        "teams": lambda seed: cede.worlds.riverswim_teams(1, seed=seed)[0],
    }
    assert result.seeds == (5, 6, 7)
    for (w, world), (n, learner), (r, seed) in product(enumerate(worlds), enumerate(makes), enumerate(result.seeds)):
        mdp = worlds[world](seed)
        history = cede.simulate(mdp, makes[learner](mdp.task, seed), 12, seed=seed, progress=False)
        for name in ("regret", "cost", "switches"):
            np.testing.assert_array_equal(getattr(result, name)[w, n, r], getattr(history, name))
        agents = mdp.team.n_agents
        np.testing.assert_array_equal(result.control[w, n, r, :, :agents], history.control)
        assert not result.control[w, n, r, :, agents:].any()
        assert result.optimum[w, n, r] == history.optimum


def test_seeds_are_common_to_all_learners_of_a_repeat():
    """Learners that play the same policy meet the same episodes, though they are different learners; other repeats differ."""
    asked = []

    def world(seed):
        asked.append(seed)
        return cede.worlds.riverswim(agents=[0.2, 0.8])

    learners = {
        "by name": ("fixed", {"agent": "p=0.8"}),
        "by index": lambda task, seed: cede.fixed(task, 1),
        "policy": lambda task, seed: cede.fixed(task, task.always(1)),
    }
    found = cede.compare({"river": world}, learners, 30, 4, progress=False)
    assert asked == [0, 1, 2, 3]
    np.testing.assert_array_equal(found.cost[0, 0], found.cost[0, 1])
    np.testing.assert_array_equal(found.cost[0, 0], found.cost[0, 2])
    assert len({tuple(row) for row in found.cost[0, 0].tolist()}) == 4


@pytest.mark.parametrize(
    ("engine", "jobs"), [("threads", 1), ("threads", 3), ("processes", 2), pytest.param("ray", 1, marks=pytest.mark.slow)]
)
def test_engines_agree(result, engine, jobs):
    """Functions are called here, whatever the engine: a lambda need not be pickled."""
    if engine == "ray":
        pytest.importorskip("ray")
    found = small(worlds={"desk": WORLDS["desk"]}, engine=engine, jobs=jobs)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name)[0], getattr(result, name)[1])


def test_finished_runs_are_kept(tmp_path, result):
    first = small(directory=tmp_path, repeats=2)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 3 * 3 * 2
    assert all(path.suffix == ".npz" for path in files)
    again = small(directory=tmp_path)  # one repeat more
    assert all(path.stat().st_mtime_ns == when for path, when in files.items())
    assert len(list(tmp_path.iterdir())) == 3 * 3 * 3
    assert_same(again, result)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name)[:, :, :2], getattr(first, name))
    assert again.settings == result.settings


def test_a_run_is_known_by_what_it_is_and_not_by_its_name(tmp_path):
    river, learner = cede.worlds.riverswim(agents=[0.3, 0.7]), lambda task, seed: cede.recommended(task, seed=seed)
    first = cede.compare({"a": river}, {"x": "recommended"}, 5, 2, directory=tmp_path, progress=False)
    named = {"b": ("riverswim", {"agents": [0.3, 0.7]})}
    same = cede.compare(named, {"y": learner}, 5, 2, directory=tmp_path, progress=False)
    assert_same(first, same)
    assert len(list(tmp_path.iterdir())) == 2
    for asked in (
        {"episodes": 6},
        {"seed": 10},
        {"learners": {"x": ("recommended", {"replan": 2})}},
        {"worlds": {"a": ("riverswim", {"agents": [0.3, 0.8]})}},
    ):
        before = len(list(tmp_path.iterdir()))
        given = {"worlds": {"a": river}, "learners": {"x": learner}, "episodes": 5, **asked}
        cede.compare(**given, repeats=2, directory=tmp_path, progress=False)
        assert len(list(tmp_path.iterdir())) == before + 2, asked


def test_other_code_is_another_run(monkeypatch):
    task = cede.worlds.riverswim().task
    one = runs.run_key("world", cede.recommended(task), 5, 20, 0)
    assert one == runs.run_key("world", cede.recommended(task), 5, 20, 0)
    monkeypatch.setattr(runs, "code_digest", lambda module: "changed")
    assert one != runs.run_key("world", cede.recommended(task), 5, 20, 0)


def test_a_damaged_run_is_played_again(tmp_path):
    def once():
        return cede.compare(["riverswim"], ["recommended"], 5, 2, directory=tmp_path, progress=False)

    first = once()
    one, other = sorted(tmp_path.iterdir())
    one.write_bytes(one.read_bytes()[:-100])
    other.write_bytes(b"")
    assert_same(once(), first)


KILLED = """
import sys
from pathlib import Path
import cede
from cede.comparison import runs
runs.SECONDS = 0.0
worlds = {"short": ("riverswim", {"agents": [0.3, 0.7]}), "long": ("riverswim", {"agents": [0.1, 0.9]})}
cede.compare(worlds, ["recommended", "greedy"], 1000, 2, directory=sys.argv[1], progress=False)
"""


def test_after_a_kill_it_goes_on_to_the_same_bits(tmp_path):
    worlds = {"short": ("riverswim", {"agents": [0.3, 0.7]}), "long": ("riverswim", {"agents": [0.1, 0.9]})}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        done = list(tmp_path.glob("*.npz"))
        if len(done) >= 4 and any(tmp_path.glob("*.checkpoint")):  # the first world is kept, the second one has begun
            time.sleep(0.1)
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert len(kept) >= 4
    resumed = []
    found = cede.compare(worlds, ["recommended", "greedy"], 1000, 2, directory=tmp_path, progress=resumed.append)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert resumed[0] >= 4 * 1000  # nothing of the first world is played again
    assert not list(tmp_path.glob("*.checkpoint"))
    assert_same(found, cede.compare(worlds, ["recommended", "greedy"], 1000, 2, progress=False))


def test_progress_counts_all_episodes():
    seen = []
    cede.compare(["riverswim", "support-desk"], ["recommended", "greedy"], 7, 2, progress=seen.append)
    assert seen[-1] == 2 * 2 * 2 * 7
    assert seen == sorted(seen)


def test_no_horizon():
    endless = ("riverswim", {"agents": [0.3, 0.7], "horizon": None, "discount": 0.9})
    found = cede.compare({"river": endless}, ["recommended", "greedy"], repeats=2, steps=60, record_every=20, progress=False)
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], horizon=None, discount=0.9)
    history = cede.simulate(mdp, cede.greedy(mdp.task, seed=1), steps=60, record_every=20, seed=1, progress=False)
    np.testing.assert_array_equal(found.regret[0, 1, 1], history.regret)
    assert found.unit == "blocks of 20 steps"
    assert "Regret of 3 blocks of 20 steps" in str(found.table())


def test_a_learner_is_not_changed_and_may_be_shared():
    mdp = cede.worlds.riverswim()
    trained = cede.recommended(mdp.task)
    cede.simulate(mdp, trained, 20, progress=False)
    found = cede.compare({"river": mdp}, {"trained": lambda task, seed: trained}, 10, 2, progress=False)
    assert trained.state.episodes == 20
    for r in range(2):
        other = cede.recommended(mdp.task)
        cede.simulate(mdp, other, 20, progress=False)
        history = cede.simulate(mdp, other, 10, seed=r, progress=False)
        np.testing.assert_array_equal(found.regret[0, 0, r], history.regret)


def test_what_named_learners_are_told():
    told = {
        "known": ("ucrl2-mc", {"known": ["machine"], "structured": True}),
        "authors": ("ucrl2-mc", {"scale": "authors"}),
        "best": "oracle",
    }
    found = cede.compare({"lanes": ("lane-driving", {"control_cost": 0.2})}, told, 2, 1, progress=False)
    settings = found.settings["lanes"]
    assert settings["known"]["known_agents"] == "['machine']"
    assert settings["authors"]["scale"] == "authors' schedule for 2 episodes"
    np.testing.assert_allclose(found.regret[0, 2], 0.0, atol=1e-9)
    assert found.reference == "known"


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"worlds": {}}, "compare: the number of worlds is 0, must be at least 1"),
        ({"worlds": "riverswim"}, "compare: worlds is 'riverswim', must be a mapping"),
        ({"worlds": ["riverswim", "riverswim"]}, "must be a mapping from names to worlds, or a list of different names"),
        ({"worlds": ["lake"]}, "compare, world 'lake': world is 'lake', must be one of 'riverswim'"),
        ({"worlds": {"x": ("riverswim", {"rivers": 2})}}, "world 'x': an argument is 'rivers', must be one of 'agents'"),
        ({"worlds": {"x": ("support-desk", {"n": 2})}}, "an argument is 'n', must be left out: it has no arguments"),
        ({"worlds": {"x": ("riverswim", {"agents": [2.0]})}}, "world 'x': riverswim: agents[0] is 2.0, must be a probability"),
        ({"worlds": {"x": 3}}, "world 'x': what stands for it is 3, must be a TwoLayerMDP, a function of a seed"),
        ({"worlds": {"x": lambda seed: seed}}, "world 'x': what its function returned is 0, must be a TwoLayerMDP"),
        ({"worlds": {"x": lambda seed: cede.worlds.riverswim(horizon=5 + seed)}}, "the horizon for seed 1 is 6, must be 5"),
        ({"worlds": {3: "riverswim"}}, "a name in worlds is 3, must be a non-empty string"),
        ({"learners": {"x": "sarsa"}}, "learner 'x': learner is 'sarsa', must be one of 'recommended'"),
        ({"learners": {"x": ("recommended", {"seed": 1})}}, "learner 'x': an argument is 'seed', must be one of"),
        ({"learners": {"x": ("ucrl2-mc", {"delta": 2.0})}}, "learner 'x': ucrl2_mc: delta is 2.0, must be a number in (0, 1)"),
        ({"learners": {"x": ("ucrl2-mc", {"known": ["nobody"]})}}, "learner 'x': an agent in known is 'nobody', must be"),
        ({"learners": {"x": ("ucrl2-mc", {"structured": 1})}}, "learner 'x': structured is 1, must be True or False"),
        ({"learners": {"x": ("ucrl2-mc", {"scale": {"agent": 1}})}}, "scale: an argument is 'agent', must be one of 'agents'"),
        ({"learners": {"x": ("ucrl2", {"known": ["p=0"]})}}, "an argument is 'known', must be one of 'delta'"),
        ({"learners": {"x": "fixed"}}, "learner 'x': agent is left out, must be given"),
        ({"learners": {"x": lambda task, seed: None}}, "learner 'x': what its function returned is None, must be a Learner"),
        ({"learners": {"x": ("fixed", {"agent": "Bob"})}}, "fixed: agent is 'Bob', must be"),
        ({"repeats": 0}, "compare: repeats is 0, must be an integer from 1"),
        ({"episodes": None}, "episodes is None, must be an integer from 1"),
        ({"steps": 5}, "steps is 5, must be left out where there is a horizon"),
        ({"reference": "nobody"}, "compare: reference is 'nobody', must be one of 'recommended'"),
        ({"engine": "magic"}, "compare: engine is 'magic', must be one of 'threads'"),
        ({"seed": -1}, "compare: seed is -1"),
        ({"directory": 3}, "compare: directory is 3, must be the path of a directory"),
        ({"directory": __file__}, "must be a directory that can be written"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(asked, message, monkeypatch):
    monkeypatch.setattr("cede.comparison.compare.played", None)  # would fail if it was called
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is compared below, as text)
        cede.compare(**{"worlds": ["riverswim"], "learners": ["recommended"], "episodes": 3, "repeats": 2, **asked})
    assert message in str(error.value)


def test_learners_that_do_not_fit_are_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("cede.comparison.compare.played", None)
    other = cede.worlds.support_desk().task
    with pytest.raises(ValueError, match="world 'river', learner 'odd': the learner's states is 11, must be 6, as in mdp"):
        cede.compare({"river": "riverswim"}, {"odd": lambda task, seed: cede.greedy(other)}, 3, 2)
    scaled = {"x": lambda task, seed: cede.ucrl2_mc(task, scale=lambda k: 1 / k)}
    with pytest.raises(ValueError, match=r"learner 'x': save: a scale of the learner is .*, must be a number or a StepDown"):
        cede.compare(["riverswim"], scaled, 3, 2, directory=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    fleet = cede.Fleet([cede.greedy(cede.worlds.riverswim().task)])
    with pytest.raises(ValueError, match="what its function returned is a learner of a fleet, must be a learner on its own"):
        cede.compare(["riverswim"], {"x": lambda task, seed: fleet.learners[0]}, 3, 2)


# ------------------------------------------------------------------------------------------------- columns


def test_columns_hold_every_run(result):
    found = result.columns()
    assert {len(column) for column in found.values()} == {3 * 3 * 3 * 12}
    assert list(found)[:7] == ["world", "learner", "repeat", "episode", "regret", "cost", "switches"]
    places = product(enumerate(result.worlds), enumerate(result.learners), enumerate(result.seeds), range(12))
    for i, ((w, world), (n, learner), (r, seed), k) in enumerate(places):
        row = {name: column[i] for name, column in found.items()}
        assert (row["world"], row["learner"], row["repeat"], row["episode"]) == (world, learner, seed, k + 1)
        assert (row["regret"], row["cost"]) == (result.regret[w, n, r, k], result.cost[w, n, r, k])
        steps, shares = result.control[w, n, r, k], {name for name in found if name.startswith("share of ")}
        for d, agent in enumerate(result.agents[w]):
            assert row[f"share of {agent}"] == steps[d] / steps.sum()
        assert all(np.isnan(row[name]) for name in shares - {f"share of {agent}" for agent in result.agents[w]})
    assert result.agents[2] == ("agent 0", "agent 1")  # other names in every repeat


def test_fewer_points_are_means_since_the_one_before(result):
    frame = result.to_frame(points=5)
    assert len(frame) == 3 * 3 * 3 * 5
    one = frame[(frame.world == "desk") & (frame.learner == "scaled") & (frame["repeat"] == 6)]
    ends = [0, *one.episode]
    assert ends == [0, 2, 4, 7, 9, 12]
    for i, (begin, end) in enumerate(pairwise(ends)):
        steps = result.control[1, 1, 1, begin:end].sum(axis=0)
        assert one.regret.iloc[i] == result.regret[1, 1, 1, end - 1]
        assert one.cost.iloc[i] == pytest.approx(result.cost[1, 1, 1, begin:end].mean())
        assert one.switches.iloc[i] == pytest.approx(result.switches[1, 1, 1, begin:end].mean())
        assert one["share of person"].iloc[i] == pytest.approx(steps[2] / steps.sum())


def test_without_pandas_the_command_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "cede\[data\]"'):
        result.to_frame()


def test_results_cannot_be_changed(result):
    with pytest.raises(ValueError, match="read-only"):
        result.regret[0] = 0


# ------------------------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("seed", range(4))
def test_sign_flips_against_brute_force_and_scipy(n, seed):
    rng = np.random.default_rng(seed)
    differences = rng.normal(0.5, 1.0, n).round(1) if seed % 2 else rng.exponential(size=n) - 0.3  # with ties, zeros; skewed
    sums = [abs(sum(sign * one for sign, one in zip(signs, differences, strict=True))) for signs in product([1, -1], repeat=n)]
    brute = sum(one >= abs(differences.sum()) - 1e-9 for one in sums) / 2**n
    assert paired.sign_flip_test(differences) == pytest.approx(brute, abs=1e-15)
    if n > 1:
        scipy = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert paired.sign_flip_test(differences) == pytest.approx(scipy.pvalue, abs=1e-12)


def test_sign_flips_of_many_differences_are_drawn():
    differences = np.random.default_rng(1).normal(0.25, 1.0, 40)
    exact_like = 2 * stats.norm.sf(abs(differences.sum()) / np.sqrt((differences**2).sum()))
    assert paired.sign_flip_test(differences) == pytest.approx(exact_like, abs=0.01)
    assert paired.sign_flip_test(differences) == paired.sign_flip_test(differences)
    assert paired.sign_flip_test(np.ones(40)) == 1 / (1 + paired.FLIPS)
    assert paired.sign_flip_test(np.zeros(40)) == 1.0
    assert paired.sign_flip_test(np.zeros(4)) == 1.0


def test_sign_flips_reject_as_often_as_they_may():
    """Under the hypothesis the test rejects in at most 5% of all cases."""
    rng = np.random.default_rng(3)
    rejected = [paired.sign_flip_test(rng.laplace(size=8)) < 0.05 for _ in range(2000)]
    assert 0.025 < np.mean(rejected) <= 0.055


def test_holm_by_hand():
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])
    assert paired.holm([0.9, 0.8, 0.7]) == [1.0, 1.0, 1.0]
    assert paired.holm([0.02]) == [0.02]
    assert paired.holm([]) == []


def test_repeats_needed_by_hand():
    """2 / 2^n times the number of comparisons must be below 0.05."""
    for comparisons, needed in ((1, 6), (2, 7), (3, 7), (4, 8), (9, 9)):
        assert paired.repeats_needed(comparisons) == needed
        assert comparisons * 2 / 2**needed < 0.05 <= comparisons * 2 / 2 ** (needed - 1)


def test_bootstrap_against_scipy():
    samples = np.random.default_rng(2).lognormal(size=(15, 3))
    ends = np.array(paired.bca_ends(samples - samples.mean(axis=0))) + samples.mean(axis=0)
    low, high = paired.mean_interval(samples)
    for j in range(3):
        theirs = stats.bootstrap((samples[:, j],), np.mean, method="BCa", n_resamples=40_000).confidence_interval
        width = theirs.high - theirs.low
        np.testing.assert_allclose(ends[:, j], [theirs.low, theirs.high], atol=0.06 * width)
        student = stats.t.interval(0.95, 14, samples[:, j].mean(), stats.sem(samples[:, j]))
        assert low[j] == pytest.approx(min(student[0], ends[0, j]))
        assert high[j] == pytest.approx(max(student[1], ends[1, j]))


def test_intervals_hold_about_as_often_as_they_say():
    samples = np.random.default_rng(4).normal(size=(8, 2000))
    low, high = paired.mean_interval(samples)
    assert 0.93 < ((low <= 0) & (high >= 0)).mean() < 0.97


def test_no_spread_no_width():
    low, high = paired.mean_interval(np.array([[1.5, 0.0]] * 7))
    assert low.tolist() == high.tolist() == [1.5, 0.0]


# ------------------------------------------------------------------------------------------------- tables and pictures


def values(repeats):
    """One world, three learners: the second 10 higher, the third the same in the mean."""
    rng = np.random.default_rng(0)
    base = rng.exponential(20.0, size=repeats)
    noise = rng.normal(size=repeats)
    return np.array([[base, base + 10 + noise, base + noise - noise.mean()]])


def test_a_table_decides_what_can_be_decided():
    table = make_table(values(12), ["river"], ["a", "b", "c"], "a", "Regret of 9 episodes")
    a, b, c = table.rows
    assert (a.verdict, b.verdict, c.verdict) == ("reference", "higher", "not decided")
    assert b.p == 2 / 2**12
    assert b.corrected == 2 * b.p
    assert b.difference == pytest.approx(10, abs=1)
    assert b.difference_interval[0] < b.difference < b.difference_interval[1]
    assert b.difference_interval[1] - b.difference_interval[0] < (b.interval[1] - b.interval[0]) / 5  # this is what pairing is for
    text = str(table)
    for part in ("sign-flip permutation test", "exact", "Holm", "12 repeats", "BCa", "to a, repeat by repeat", "< 0.001"):
        assert part in text.replace("\n", " ")
    lower = make_table(values(12), ["river"], ["a", "b", "c"], "b", "Regret").rows[0]
    assert lower.verdict == "lower"


@pytest.mark.parametrize("repeats", [1, 2, 5, 6])
def test_with_too_few_repeats_nothing_is_decided(repeats):
    table = make_table(values(repeats), ["river"], ["a", "b", "c"], "a", "Regret")
    assert {row.verdict for row in table.rows[1:]} == {"too few repeats"}
    assert "Nothing can be decided" in table.note
    assert "at least 7 are needed" in table.note
    assert (table.rows[0].interval is None) == (repeats < 6)


def test_a_single_learner_is_not_compared():
    table = make_table(values(8)[:, :1], ["river"], ["a"], "a", "Regret")
    assert "permutation" not in table.note
    assert table.rows[0].verdict == "reference"


def test_other_measures(result):
    assert "Cost per episode" in str(result.table("cost"))
    np.testing.assert_allclose(result.final("switches"), result.switches.mean(axis=3))
    with pytest.raises(ValueError, match="measure is 'speed', must be one of 'regret', 'cost', 'switches'"):
        result.table("speed")


RUDE = "50% of $x_1$ & \\input{x} #~^ [b]*`-- \x1b[2J{}<a|b>"


def test_names_are_shown_as_they_are(tmp_path):
    found = cede.compare({RUDE: "riverswim", "_y": "riverswim"}, {RUDE: "greedy", "[red]": "recommended"}, 3, 2, progress=False)
    text = str(found.table())
    assert "50% of $x_1$ & \\input{x} #~^ [b]*`-- \\x1b[2J{}<a|b>" in text
    assert "\x1b" not in text
    assert "[red]" in text
    found.plot().savefig(tmp_path / "picture.png")  # mathtext would fail here
    latex = found.table().latex
    assert_is_sound(latex)
    assert r"50\% of \$x\_1\$ \& \textbackslash{}input\{x\} \#\textasciitilde{}\textasciicircum{} {[}b{]}{*}" in latex


def assert_is_sound(latex):
    """Braces close, every line of the table has as many cells, and no command is there but those that the table writes itself."""
    import re

    bare = latex.replace("\\\\", "\n").replace(r"\{", "").replace(r"\}", "")
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    commands = set(re.findall(r"\\([a-zA-Z]+)", latex))
    ours = {"begin", "end", "hline", "multicolumn", "linewidth", "footnotesize"}
    shown = {"textbackslash", "textasciitilde", "textasciicircum", "textasciigrave", "textless", "textgreater", "textbar"}
    assert commands <= ours | shown
    for line in latex.splitlines():
        if line.endswith(r" \\"):
            cells = line.removesuffix(r" \\")
            assert len(re.findall(r"(?<!\\)&", cells)) == 7
            assert len(re.findall(r"(?<!\\)\$", cells)) % 2 == 0
            assert not re.search(r"(?<!\\)[#%~^_]", cells)
            assert not line.startswith(("[", "*"))


def test_escaped_latex_is_unescaped_by_hand():
    assert escaped("a_b") == r"a\_b"
    assert escaped("\\") == r"\textbackslash{}"
    assert escaped("--") == "{-}{-}"
    assert escaped("naïve") == "naïve"
    assert escaped("a\nb") == r"a\textbackslash{}nb"


def test_eight_learners_look_different():
    looks = [look(i) for i in range(48)]
    assert len({one["color"] for one in looks[:8]}) == 8
    assert len({str(one) for one in looks}) == 48


def test_the_picture_shows_a_panel_for_each_world(result):
    picture = result.plot()
    shown = [axes for axes in picture.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["river", "desk", "teams"]
    line = shown[1].get_lines()[2]
    np.testing.assert_allclose(line.get_ydata(), result.regret[1, 2].mean(axis=0))
    assert [text.get_text() for text in picture.legends[0].get_texts()] == list(result.learners)
    assert "from the least to the greatest repeat" in picture.get_supxlabel()


# ------------------------------------------------------------------------------------------------- studies

STUDY = """
episodes = 10
repeats = 3
seed = 2
reference = "ucrl2-mc"
engine = "threads"
[worlds.river]
world = "riverswim"
agents = [0.3, 0.7]
[worlds.support-desk]
[learners.recommended]
[learners.ucrl2-mc]
scale = { agents = 0.1, environment = 0.01 }
"""


def test_a_study_writes_everything(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    done = CliRunner().invoke(app, ["compare", str(study), "--out", str(tmp_path / "out"), "--jobs", "2"])
    assert done.exit_code == 0, done.output
    assert "Nothing can be decided" in done.output
    out = tmp_path / "out"
    assert (out / "study.toml").read_text() == STUDY
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3 * 10
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    history = cede.simulate(mdp, cede.recommended(mdp.task, seed=2), 10, seed=2, progress=False)
    mine = [row for row in rows if (row["world"], row["learner"], row["repeat"]) == ("river", "recommended", "2")]
    assert [float(row["regret"]) for row in mine] == history.regret.tolist()
    assert "sign-flip" in (out / "table.txt").read_text()
    assert_is_sound((out / "table.tex").read_text())
    assert matplotlib.image.imread(out / "figure.png").std() > 0.01
    assert (out / "figure.pdf").read_bytes()[:5] == b"%PDF-"
    about = json.loads((out / "about.json").read_text())
    assert about["versions"]["cede"] == cede.__version__
    assert set(about["versions"]) == {"cede", "python", "numpy", "scipy", "numba"}
    assert about["seeds"] == [2, 3, 4]
    assert len(about["code_sha256"]) == len(about["study_sha256"]) == 64
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    run_study(study, out)  # again, from what was kept
    assert {path: path.read_bytes() for path in before} == before


def test_another_study_is_not_overwritten_unless_that_is_asked_for(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    run_study(study, tmp_path / "out")
    study.write_text(STUDY.replace("repeats = 3", "repeats = 4"))
    with pytest.raises(ValueError, match="which holds another study: choose another --out, or --overwrite"):
        run_study(study, tmp_path / "out")
    assert len(run_study(study, tmp_path / "out", overwrite=True)[0].seeds) == 4
    study.write_text("# with a remark\n" + study.read_text())
    run_study(study, tmp_path / "out")  # the same study


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 2", "sed = 2", "study.toml: a key is 'sed', must be one of 'episodes'"),
        ("episodes = 10", "episodes = 10.0", "study.toml: episodes is 10.0, must be an integer of at least 1"),
        ("episodes = 10", "episodes = true", "study.toml: episodes is True, must be an integer"),
        ("repeats = 3", "", "study.toml: repeats is left out, must be given"),
        ("repeats = 3", "repeats = 0", "study.toml: repeats is 0, must be an integer of at least 1"),
        ('engine = "threads"', 'engine = "os.system"', "study.toml: engine is 'os.system', must be one of 'threads'"),
        ('reference = "ucrl2-mc"', 'reference = "me"', "study.toml: reference is 'me', must be one of 'recommended'"),
        ('world = "riverswim"', "world = 3", "study.toml: worlds.river.world is 3, must be a non-empty string"),
        ('world = "riverswim"', 'world = "os:system"', "compare, world 'river': world is 'os:system', must be one of 'riverswim'"),
        ("agents = [0.3, 0.7]", "agent = [0.3]", "compare, world 'river': an argument is 'agent', must be one of 'agents'"),
        ("agents = [0.3, 0.7]", 'agents = ["0.3"]', "compare, world 'river': riverswim: agents is ['0.3'], must be an array"),
        ("[learners.ucrl2-mc]", "[learners.ucrl3]", "study.toml: reference is 'ucrl2-mc', must be one of 'recommended', 'ucrl3'"),
        ("environment = 0.01", "envronment = 0.01", "scale: an argument is 'envronment', must be one of 'agents', 'environment'"),
        ("environment = 0.01", 'environment = "low"', "learner 'ucrl2-mc': "),
        ("[learners.recommended]", "[learners]\nrecommended = 1", "study.toml: learners.recommended is 1, must be a table"),
        ("[worlds.support-desk]", "[worlds.cave]", "compare, world 'cave': world is 'cave', must be one of"),
        ("seed = 2", "seed = ", "is no TOML"),
    ],
)
def test_a_study_is_strict(tmp_path, old, new, message):
    path = tmp_path / "study.toml"
    assert old in STUDY
    path.write_text(STUDY.replace(old, new))
    done = CliRunner().invoke(app, ["compare", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


def test_a_study_that_is_not_there(tmp_path):
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "none.toml")])
    assert done.exit_code == 2
    assert "cannot be read" in done.output


def test_the_example_is_a_study():
    study = read_study(ROOT / "examples" / "study.toml")
    assert study.repeats >= paired.repeats_needed(len(study.worlds) * (len(study.learners) - 1))


def test_the_page_shows_the_example():
    page = (ROOT / "docs" / "compare.md").read_text()
    shown = page.split("```toml\n")[1].split("```")[0]
    assert shown.strip() in (ROOT / "examples" / "study.toml").read_text()
