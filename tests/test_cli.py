"""The command line and the pictures of the demo."""

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.experiments import demo

run = CliRunner().invoke


def test_help_and_version():
    assert "learns who should be in control" in run(app, ["--help"]).output
    assert run(app, ["--version"]).output == f"cede {cede.__version__}\n"


def test_demo_makes_pictures_and_a_table(tmp_path):
    result = run(app, ["demo", "--episodes", "20", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "UCRL2-MC" in result.output
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["demo-drives.png", "demo-drives.svg", "demo-regret.png", "demo-regret.svg"]
    assert all(path.stat().st_size > 5000 for path in tmp_path.iterdir())


def test_demo_run_is_one_run():
    """Looking at the policy on the way changes nothing."""
    looked = demo.run(12, seed=4, progress=False)
    mdp = looked.mdp
    learner = cede.ucrl2_mc(mdp.task, scale=demo.SCALE, known_agents={"machine": mdp.team.agents[0].policy}, seed=4)
    plain = cede.simulate(mdp, learner, 12, seed=4, progress=False)
    np.testing.assert_array_equal(looked.histories["UCRL2-MC"].regret, plain.regret)
    np.testing.assert_array_equal(looked.histories["UCRL2-MC"].cost, plain.cost)


@pytest.mark.parametrize("method", ["ucrl2-mc", "ucrl2", "ucrl2-same-form", "greedy"])
def test_learn(method):
    result = run(app, ["learn", "riverswim", "--method", method, "--episodes", "30", "--agents", "0.2,0.5,0.9"])
    assert result.exit_code == 0, result.output
    assert "best possible" in result.output
    assert "seed: 0" in result.output


@pytest.mark.parametrize("radii", ["authors", "small"])
def test_learn_lane_driving(radii):
    result = run(app, ["learn", "lane-driving", "--radii", radii, "--episodes", "5", "--control-cost", "0.2"])
    assert result.exit_code == 0, result.output
    assert "human alone" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "riverswim", "--agents", "0.2,fast"], "must be numbers with commas between"),
        (["learn", "riverswim", "--agents", "0.2,1.4"], "riverswim: agents[1] is 1.4, must be a probability"),
        (["learn", "riverswim", "--delta", "2"], "delta is 2.0, must be a number in (0, 1)"),
        (["learn", "nowhere"], "nowhere"),
        (["demo", "--episodes", "0"], "Invalid value"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message):
    result = run(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
