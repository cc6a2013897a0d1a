"""The command line; its figures are tested in test_experiments."""

import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app

run = CliRunner().invoke


def test_help_and_version():
    assert "learns who should be in control" in run(app, ["--help"]).output
    assert run(app, ["--version"]).output == f"cede {cede.__version__}\n"


@pytest.mark.parametrize("method", ["ucrl2-mc", "ucrl2", "ucrl2-same-form", "greedy"])
def test_learn(method):
    result = run(app, ["learn", "riverswim", "--method", method, "--episodes", "30", "--agents", "0.2,0.5,0.9"])
    assert result.exit_code == 0, result.output
    assert "best possible" in result.output
    assert "seed: 0" in result.output


@pytest.mark.parametrize("ways", [["--planning", "greedy", "--evaluate-every", "5"], ["--replan", "doubling"], ["--replan", "7"]])
def test_learn_with_less_planning(ways):
    result = run(app, ["learn", "riverswim", "--episodes", "30", *ways])
    assert result.exit_code == 0, result.output
    assert f"{ways[0].removeprefix('--')}: {ways[1]}" in result.output.replace("\n", " ")


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
        (["learn", "riverswim", "--replan", "often"], "replan is 'often', must be one of 'every', 'doubling'"),
        (["learn", "riverswim", "--planning", "greedy", "--replan", "3"], "replan is 3, must be 'every'"),
        (["learn", "nowhere"], "nowhere"),
        (["demo", "--jobs", "0"], "Invalid value"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message):
    result = run(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
