"""The command line."""

import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.cli.learn import make_world
from cede.worlds import by_name

run = CliRunner().invoke


def test_alone_it_says_what_to_try_first():
    result = run(app, [])
    assert result.exit_code == 0
    for command in ("cede demo", "cede learn support-desk", "cede show driver.cede"):
        assert command in result.output


def test_help_shows_flags_as_flags():
    for command in ("demo", "learn", "compare"):
        assert "<bool>" not in run(app, [command, "--help"]).output


def test_experiments_are_not_in_the_wheel():
    for command in ("figure", "claims", "paper", "fleet"):
        assert "No such command" in run(app, [command]).output


def test_learn_takes_the_recommended_learner_and_prints_no_line_of_nones():
    result = run(app, ["learn", "support-desk", "--episodes", "20"])
    assert result.exit_code == 0, result.output
    assert "learner: recommended" in result.output
    assert "None" not in result.output
    assert "of the last tenth" in result.output


def test_a_world_keeps_its_own_costs_unless_others_are_given(monkeypatch):
    """The command line set costs that nobody had given to 0; by name in a study, the world kept its own."""

    def clinic(switch_cost=0.5):
        return cede.worlds.riverswim([0.3, 0.7], switch_cost=switch_cost)

    monkeypatch.setattr(by_name, "WORLDS", {"clinic": clinic})
    assert make_world("clinic", None, None, None).team.switch_cost[0, 1] == 0.5
    assert make_world("clinic", None, None, 0.1).team.switch_cost[0, 1] == 0.1


def test_a_name_is_the_same_problem_on_the_command_line_and_in_a_study():
    assert make_world("riverswim", None, None, None).task.agents == by_name.WORLDS["riverswim"]().task.agents == ("p=0.3", "p=0.7")


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
    result = run(app, ["learn", "riverswim", "--method", "ucrl2-mc", "--episodes", "30", *ways])
    assert result.exit_code == 0, result.output
    assert f"{ways[0].removeprefix('--')}: {ways[1]}" in result.output.replace("\n", " ")


@pytest.mark.parametrize("radii", ["authors", "small"])
def test_learn_lane_driving(radii):
    result = run(
        app, ["learn", "lane-driving", "--method", "ucrl2-mc", "--radii", radii, "--episodes", "5", "--control-cost", "0.2"]
    )
    assert result.exit_code == 0, result.output
    assert "human alone" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "riverswim", "--agents", "0.2,fast"], "must be numbers with commas between"),
        (["learn", "riverswim", "--agents", "0.2,1.4"], "riverswim: agents[1] is 1.4, must be a probability"),
        (["learn", "riverswim", "--method", "ucrl2-mc", "--delta", "2"], "delta is 2.0, must be a number in (0, 1)"),
        (["learn", "riverswim", "--replan", "often"], "replan is 'often', must be one of 'every', 'doubling'"),
        (["learn", "riverswim", "--method", "ucrl2-mc", "--planning", "greedy", "--replan", "3"], "replan is 3, must be 'every'"),
        (["learn", "nowhere"], "nowhere"),
        (["demo", "--seed", "-1"], "Invalid value"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message):
    result = run(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--structured"], "structure: environment has 6 cases of up to 3 outcomes"),
        (["--method", "ucrl2-mc", "--radii", "bernstein"], "radius: bernstein"),
        (["--method", "ucrl2-mc", "--radii", "kl"], "radius: kl"),
        (["--method", "recommended"], "scale: calibrated from the data, no guarantee"),
        (["--method", "posterior-sampling", "--structured"], "prior: 1.0"),
        (["--method", "greedy", "--structured"], "learner: greedy"),
    ],
)
def test_learn_with_what_is_beyond_the_paper(options, expected):
    result = CliRunner().invoke(app, ["learn", "riverswim", "--episodes", "20", *options])
    assert result.exit_code == 0, result.output
    assert expected in result.output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--method", "ucrl2", "--structured"], "ucrl2: structured is asked for, must be left out"),
        (["--method", "ucrl2", "--radii", "bernstein"], "ucrl2: radii bernstein is asked for, must be left out"),
        (["--method", "posterior-sampling", "--planning", "greedy"], "posterior_sampling: planning is 'greedy', must be 'full'"),
    ],
)
def test_learn_refuses_what_makes_no_sense(options, expected):
    result = CliRunner().invoke(app, ["learn", "riverswim", "--episodes", "20", *options])
    assert result.exit_code == 2
    assert expected in result.output


def test_show(tmp_path):
    """A learner that was saved, from the shell: groups, a picture, and what is wrong with a file."""
    path = tmp_path / "swimmer.cede"
    command = ["learn", "riverswim", "--method", "ucrl2-mc", "--episodes", "30", "--structured", "--save", str(path)]
    assert f"written: {path}" in run(app, command).output.replace("\n", "")
    result = run(app, ["show", str(path), "--picture", str(tmp_path / "who.png")])
    assert result.exit_code == 0, result.output
    for text in (
        "In control in 30 episodes",
        "Who acts where if the plan is followed",
        "Where belief is still wide",
        "s6",
        "p=0.7",
    ):
        assert text in result.output
    for text in ("share so far", "share planned", "where episodes start: ", "expected cost per episode: plan ", "p=0.3 alone "):
        assert text in result.output
    assert "confidence sets of 80%" in result.output
    assert (tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")
    grouped = run(app, ["show", str(path), "--by", "s(1|6)"]).output
    assert "other states" in grouped
    path.write_bytes(path.read_bytes()[:-50])
    broken = run(app, ["show", str(path)])
    assert broken.exit_code == 2
    assert "cannot be read, must be a learner or fleet of cede" in broken.output.replace("\n", " ")


def test_show_a_fleet(tmp_path):
    mdps = cede.worlds.riverswim_teams(2, seed=1)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    cede.simulate_fleet(mdps, fleet, 5, progress=False)
    fleet.save(tmp_path / "fleet.cede")
    assert "fleet of 2 teams, 10 episodes; team 1:" in run(app, ["show", str(tmp_path / "fleet.cede"), "--team", "1"]).output
    beyond = run(app, ["show", str(tmp_path / "fleet.cede"), "--team", "2"])
    assert beyond.exit_code == 2
    assert "show: --team is 2, must be from 0 to 1" in beyond.output


def test_learn_with_promises():
    limited = ["--at-most", "p=0.7=0.3", "--takeover-delay", "p=0.7=1"]
    result = run(app, ["learn", "riverswim", "--episodes", "50", *limited])
    assert result.exit_code == 0, result.output
    assert "at_most: {'p=0.7':" in result.output.replace("\n", " ")
    assert "limits" in result.output  # the best possible within them
    result = run(app, ["learn", "riverswim", "--episodes", "50", "--baseline", "p=0.3", "--alpha", "0.2"])
    assert result.exit_code == 0, result.output
    assert "baseline: p=0.3, alpha 0.2" in result.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at-most", "human"], "--at-most is 'human', must be a name and a number"),
        (["--at-most", "human=0.3"], "an agent of at_most is 'human', must be one of 'p=0.3', 'p=0.7'"),
        (["--takeover-delay", "human=2"], "an agent of --takeover-delay is 'human', must be one of"),
        (["--takeover-delay", "p=0.7=0.5"], "takeover_delay is 0.5, must be an integer"),
        (["--method", "greedy", "--baseline", "p=0.3"], "greedy: baseline is p=0.3, must be left out"),
        (["--method", "ucrl2", "--at-most", "p=0.3=0.5"], "ucrl2: at_most is asked for, must be left out"),
    ],
)
def test_bad_promises(arguments, message):
    result = run(app, ["learn", "riverswim", "--episodes", "5", *arguments])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
