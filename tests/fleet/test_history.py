"""Histories as data frames, files and pictures: what is in them is what was run."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas
import pyarrow.parquet
import pytest

import cede
from problems import random_mdp

MDP = random_mdp(2, n_states=4, n_agents=3, horizon=4)


def run(mdp=MDP, episodes=30):
    return cede.simulate(mdp, cede.ucrl2_mc(mdp.task, scale=0.1, seed=7), episodes, seed=3, progress=False)


def fleet_run():
    mdps = [random_mdp(2, n_states=3, n_actions=2, n_agents=n, horizon=3) for n in (2, 2)]
    mdps.append(cede.TwoLayerMDP(mdps[0].environment, mdps[0].team, 3))
    mdps[1] = cede.TwoLayerMDP(mdps[0].environment, cede.Team([mdps[0].team.agents[0]]), 3)
    return cede.simulate_fleet(mdps, cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps]), 5, jobs=1, progress=False)


def test_regret_that_is_not_known_is_not_drawn_and_not_shown_as_a_number():
    mdp = cede.worlds.riverswim([0.3, 0.7])

    class Closed:
        def choose(self, t, state, prev_agent):
            return 0

        def observe(self, *step, cost, enter_cost):
            pass

        def end_episode(self):
            pass

    history = cede.simulate(mdp, Closed(), 10, seed=0)
    assert "regret not known" in repr(history)
    labels = [axes.get_ylabel() for axes in history.plot().axes]
    assert len(labels) == 3
    assert "total regret" not in labels


def test_a_repr_tells_of_one_stretch_of_time():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    history = cede.simulate(mdp, cede.recommended(mdp.task), 200, seed=0)
    tail = history.control[-20:].sum(axis=0)
    assert f"p=0.7 {tail[1] / tail.sum():.0%}" in repr(history)


def test_a_history_as_a_frame():
    history = run()
    frame = history.to_frame()
    assert frame["episode"].tolist() == list(range(1, 31))
    for name in ("cost", "expected_cost", "regret", "switches", "lengths"):
        np.testing.assert_array_equal(frame[name], getattr(history, name))
    for i, name in enumerate(history.agents):
        np.testing.assert_array_equal(frame[f"control[{name}]"], history.control[:, i])
    assert set(frame["learner"]) == {"ucrl2_mc"}
    assert (set(frame["seed"]), set(frame["simulation_seed"]), set(frame["cede"])) == ({7}, {3}, {cede.__version__})


def test_lengths_of_episodes():
    """Each episode ends after one or two steps, in the terminal state 2: one step by agent b, two by agent a."""
    env = cede.Environment(np.eye(3)[[[1, 2], [2, 2], [2, 2]]], [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [1.0, 0.0, 0.0], terminal=[2])
    agents = [cede.Agent(name, np.eye(2)[[action] * 3]) for action, name in enumerate("ab")]
    mdp = cede.TwoLayerMDP(env, cede.Team(agents), 5)
    for agent, steps in (("a", 2), ("b", 1)):
        history = cede.simulate(mdp, cede.fixed(mdp.task, agent), 4, seed=0, progress=False)
        assert history.lengths.tolist() == [steps] * 4
    assert fleet_run().lengths.tolist() == [[3] * 5] * 3


def test_a_fleet_history_as_a_frame():
    history = fleet_run()
    frame = history.to_frame()
    assert len(frame) == 15
    for n in range(3):
        mine = frame[frame["team"] == n]
        assert mine["episode"].tolist() == [1, 2, 3, 4, 5]
        for name in ("cost", "expected_cost", "switches", "lengths"):
            np.testing.assert_array_equal(mine[name], getattr(history, name)[n])
        for d in range(2):
            np.testing.assert_array_equal(mine[f"control[{d}]"], history.control[n, :, d])
        np.testing.assert_array_equal(mine["fleet_regret"], history.regret)


@pytest.mark.parametrize("make", [run, fleet_run])
def test_files(make, tmp_path):
    history = make()
    frame = history.to_frame()
    readers = {
        "csv": pandas.read_csv,
        "jsonl": lambda path: pandas.read_json(path, lines=True, precise_float=True),
        "parquet": pandas.read_parquet,
    }
    for suffix, read in readers.items():
        path = history.save(tmp_path / f"run.{suffix}")
        pandas.testing.assert_frame_equal(read(path), frame, check_dtype=False)
        assert [one.name for one in tmp_path.iterdir() if one.suffix == f".{suffix}"] == [f"run.{suffix}"]
    told = json.loads(pyarrow.parquet.read_schema(tmp_path / "run.parquet").metadata[b"cede"])
    assert told["settings"]["delta"] == str(history.settings["delta"])
    before = (tmp_path / "run.csv").read_bytes()
    with pytest.raises(ValueError, match=r"History.save: the suffix of path is '.txt', must be one of '.csv'"):
        history.save(tmp_path / "run.txt")
    with pytest.raises(OSError, match="nowhere"):
        history.save(tmp_path / "nowhere" / "run.csv")
    assert (tmp_path / "run.csv").read_bytes() == before


def test_what_is_not_known_is_missing_in_files(tmp_path):
    history = replace(run(), expected_cost=np.full(30, np.nan))
    history.save(tmp_path / "run.jsonl")
    history.save(tmp_path / "run.csv")
    history.save(tmp_path / "run.parquet")
    assert json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])["expected_cost"] is None
    with (tmp_path / "run.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["expected_cost"] == ""
    assert pandas.read_parquet(tmp_path / "run.parquet")["expected_cost"].isna().all()


def test_names_are_data_in_files(tmp_path):
    names = ['=1+1, "a"\n', "b;\x1b[2J", "$c$"]
    history = replace(run(), agents=tuple(names))
    history.save(tmp_path / "run.csv")
    found = pandas.read_csv(tmp_path / "run.csv")
    for i, name in enumerate(names):
        np.testing.assert_array_equal(found[f"control[{name}]"], history.control[:, i])
    history.plot().savefig(tmp_path / "run.png")


def lines(panel):
    return {line.get_label(): line.get_xydata() for line in panel.get_lines()}


def test_a_picture_shows_what_was_run(tmp_path):
    history = run()
    picture = history.plot()
    costs, regret, control, counts = picture.axes
    np.testing.assert_allclose(lines(costs)["each episode"], np.column_stack([np.arange(1, 31), history.cost]))
    np.testing.assert_allclose(lines(costs)["expected"][:, 1], history.expected_cost)
    np.testing.assert_allclose(regret.get_lines()[0].get_ydata(), history.regret)
    np.testing.assert_allclose(lines(counts)["hand-overs"][:, 1], history.switches)
    assert [text.get_text() for text in control.get_legend().get_texts()] == list(history.agents)
    picture.savefig(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_pictures_of_long_runs_are_small():
    """Lines are thinned, means stay means: the last point is the mean of the last fiftieth."""
    history = run()
    long = 50_000
    rng = np.random.default_rng(0)
    columns = {"cost": rng.random(long), "expected_cost": np.ones(long), "regret": np.arange(long, dtype=float)}
    big = replace(history, **columns, control=rng.integers(0, 9, (long, 3)), switches=rng.integers(0, 9, long))
    costs = lines(big.plot().axes[0])["mean of 1,000 episodes"]
    assert len(costs) <= 2000
    np.testing.assert_allclose(costs[-1], [long, columns["cost"][-1000:].mean()])


def test_many_members_and_other_runs(tmp_path):
    history = run()
    many = replace(history, control=np.ones((30, 40), dtype=np.int64), agents=tuple(f"agent {i}" * 20 for i in range(40)))
    legend = [text.get_text() for text in many.plot().axes[2].get_legend().get_texts()]
    assert len(legend) == 8
    assert legend[-1] == "33 others"
    many.plot().savefig(tmp_path / "many.png")
    assert len(fleet_run().plot().axes) == 4
    endless = cede.TwoLayerMDP(MDP.environment, random_mdp(2, n_states=4, n_agents=2, kinds=[None]).team, None, discount=0.9)
    blocks = cede.simulate(endless, cede.ucrl2_mc(endless.task), steps=40, record_every=4, progress=False)
    costs = lines(blocks.plot().axes[0])["mean of 4 steps"]
    np.testing.assert_allclose(costs, np.column_stack([np.arange(4, 44, 4), blocks.cost / 4]))


def test_a_missing_extra_is_answered_with_the_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "cede\[data\]"'):
        run(episodes=2).to_frame()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "cede\[data\]"'):
        run(episodes=2).save("run.parquet")
