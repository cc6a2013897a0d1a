"""The command line of the studies, and fleets from the shell."""

import pytest
from typer.testing import CliRunner

from studies.__main__ import app
from studies.catalogue import FIGURES

run = CliRunner().invoke


def test_help_shows_flags_as_flags_and_lists_figures():
    for command in ("figure", "fleet", "claims", "paper"):
        assert "<bool>" not in run(app, [command, "--help"]).output
    shown = run(app, ["figure", "--help"]).output
    assert all(name in shown for name in FIGURES)


@pytest.mark.parametrize(
    "options", [[], ["--engine", "processes", "--jobs", "2"], ["--method", "ucrl2-same-form"], ["--sync-every", "4"]]
)
def test_fleet(tmp_path, options):
    result = run(app, ["fleet", "riverswim", "--teams", "6", "--episodes", "12", "--out", str(tmp_path / "run"), *options])
    assert result.exit_code == 0, result.output
    assert "total regret" in result.output
    assert "team-episodes per second" in result.output
    assert "teams: 6" in result.output.replace("\n", " ")
    for name in ("curve.csv", "teams.csv", "checkpoint.npz", "fleet.png", "fleet.svg"):
        assert (tmp_path / "run" / name).stat().st_size > 500


def test_fleet_of_drivers_knows_the_machine_unless_told_otherwise(tmp_path):
    size = ["fleet", "lane-driving", "--teams", "3", "--episodes", "3", "--control-cost", "0.2", "--switch-cost", "0.1"]
    for more, known in (([], True), (["--learn-machine"], False)):
        result = run(app, [*size, "--out", str(tmp_path / str(len(more))), *more])
        assert result.exit_code == 0, result.output
        assert ("known_agents: ['machine']" in result.output.replace("\n", " ")) == known


def test_fleet_is_resumed_only_where_there_is_something(tmp_path):
    command = ["fleet", "riverswim", "--teams", "3", "--episodes", "5", "--out", str(tmp_path / "run")]
    assert "holds no checkpoint to resume" in run(app, [*command, "--resume"]).output
    assert run(app, command).exit_code == 0
    before = (tmp_path / "run" / "curve.csv").read_bytes()
    again = run(app, command)
    assert again.exit_code == 2
    assert "holds a run already: --resume it, or choose another directory" in again.output
    assert run(app, [*command, "--resume"]).exit_code == 0
    assert (tmp_path / "run" / "curve.csv").read_bytes() == before
    other = run(app, [*command, "--resume", "--seed", "4"])
    assert other.exit_code == 2
    assert "is of another run" in other.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "auto"], "address is 'auto', must be left out with engine 'threads'"),
        (["--engine", "ray", "--address", "127.0.0.1:9"], "no cluster answers at address '127.0.0.1:9'"),
        (["--control-cost", "0.2"], "--control-cost is given, must be left out in riverswim"),
        (["--replan", "seldom"], "replan is 'seldom', must be one of 'every', 'doubling'"),
        (["--engine", "cloud"], "cloud"),
        (["--teams", "0"], "Invalid value"),
        (["--out", "/proc/nowhere/run"], "must be a directory that can be written"),
    ],
)
def test_mistakes_of_fleet_end_in_one_line(tmp_path, options, message):
    command = ["fleet", "riverswim", "--teams", "2", "--episodes", "2", "--out", str(tmp_path / "run")]
    result = run(app, [*command, *options])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_a_structured_fleet(tmp_path):
    command = ["fleet", "riverswim", "--teams", "3", "--episodes", "10", "--structured", "--method", "posterior-sampling"]
    result = run(app, [*command, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "teams.csv").exists()


def test_fleets_have_no_options_that_do_nothing():
    assert run(app, ["fleet", "riverswim", "--teams", "2", "--episodes", "2", "--at-most", "p=0.7=0.1"]).exit_code == 2


def test_a_fleet_knows_two_worlds():
    result = run(app, ["fleet", "corridor"])
    assert result.exit_code == 2
    assert "fleet: world is 'corridor', must be one of 'riverswim', 'lane-driving'" in result.output
