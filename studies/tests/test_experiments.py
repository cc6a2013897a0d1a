"""Every figure and every claim with a few episodes: structure, resuming, errors. What is true is for the full run."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede.worlds import riverswim
from studies import style
from studies.__main__ import app
from studies.catalogue import FIGURES, chosen, figures_in
from studies.claims import finding, pages, paper_river, verdicts
from studies.claims import statistics as claim_statistics
from studies.figure import Options, Part
from studies.figures import league, promises
from studies.parallel import run_parts
from studies.report import with_gallery, write_report
from studies.run import run
from studies.runs import lane, river
from studies.runs.promises import YES, competitors
from studies.tables import load_table, save_table

ROOT = Path(__file__).parents[2]
invoke = CliRunner().invoke
NAMES = [
    "roads",
    "trajectories",
    "single-team",
    "many-teams",
    "riverswim",
    "team-count",
    "hundred-teams",
    "drivers",
    "human-control",
    "action-size",
    "team-size",
]


REPEATED = [
    "riverswim",
    "team-count",
    "team-size",
    "action-size",
    "hundred-teams",
    "growth",
    "sharing",
    "sharing-why",
    "endless-river",
]


def from_the_table_alone(figure):
    """The figure, drawn with nothing that could simulate."""

    def draw(rows, path):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("fleet.simulate.play", "fleet.simulate.roll", "worlds.drivers.machine_policy"):
                patch.setattr(f"cede.{name}", None)
            return figure.draw(rows, path)

    return replace(figure, draw=draw)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All figures, run once with ten episodes, some with two repeats, and drawn from the tables alone."""
    out = tmp_path_factory.mktemp("figures")
    for names, repeats in ((REPEATED, 2), ([name for name in FIGURES if name not in REPEATED], 1)):
        figures = [from_the_table_alone(figure) for figure in chosen(names)]
        run(figures, Options(quick=True, episodes=10, repeats=repeats, out=out), lambda text: None)
    write_report(out)
    return out


def test_the_catalogue_has_every_figure_of_the_paper():
    assert set(NAMES) <= set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_figure(done, name):
    rows = load_table(done / f"{name}.csv")
    assert all(row["cede"] == cede.__version__ and row["quick"] == 1 and row["base_seed"] == 0 for row in rows)
    curves = [row for row in rows if row.get("regret", "") != ""]
    if curves:
        assert {"learner", "radius", "scale", "delta", "seed", "episodes"} <= set(curves[0])
        if name != "limits":  # who exceeds them for a while may cost less than the best within them
            assert all(row["regret"] >= -1e-9 for row in curves)
        assert {row["seed"] for row in curves} == ({0, 1} if name in REPEATED else {0})
    for kind, head in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        picture = (done / f"{name}.{kind}").read_bytes()
        assert picture.startswith(head)
        assert len(picture) > 3000
    assert (
        b"QUICK RUN" in (done / f"{name}.svg").read_bytes()
        or b"<!-- QUICK RUN: few episodes -->" in (done / f"{name}.svg").read_bytes()
    )


@pytest.mark.parametrize("name", FIGURES)
def test_the_caption_of_a_quick_run_tells_its_own_numbers(done, name):
    """Not those of the full run, which has more episodes, teams and repeats."""
    rows = load_table(done / f"{name}.csv")
    comments = re.findall(r"<!-- (.*?) -->", (done / f"{name}.svg").read_text(), re.DOTALL)
    written = " ".join([*comments, style.settings_of(done / f"{name}.png")])  # in the picture, and in its description
    text = " ".join(written.replace("\u00a0", " ").split())
    assert "made with cede" in text.lower()
    assert not re.search(r"\b\d+,000 (episodes|steps)", text) or name in ("league", "endless-river")
    if "episodes" in rows[0]:
        assert f"{rows[0]['episodes']:,} {rows[0].get('unit', 'episodes')}" in text
    if "teams" in rows[0] and "world" not in rows[0]:
        assert re.search(rf"\b{rows[0]['teams']} teams", text) or name in ("team-count", "sharing", "sharing-why")
    if len({row["seed"] for row in rows if row.get("seed", "") != ""}) < 2 and name != "human-control":
        assert "95%" not in text


def test_promises_have_a_picture_and_a_table_for_each_world(done):
    for world, name in promises.FILES.items():
        assert (done / f"promises-{name}.png").stat().st_size > 3000
        text = (done / f"promises-{name}.md").read_text()
        assert "| guarantee |" in text
        assert "**quick run**" in text
        assert all(f"| {who} |" in text for who in competitors(world))
    watched = [row for row in load_table(done / "promises.csv") if row["guarantee"] == YES and row["looks"] != ""]
    assert watched
    assert all(row["left"] == 0 and row["above"] == 0 for row in watched)


RESULTS = Path(__file__).parent.parent / "results"


def test_structure_in_the_obstacle_task_at_full_size():
    """The table behind docs/structure.md: printed unscaled radii, 20,000 episodes, every promise kept."""
    last = [row for row in load_table(RESULTS / "structure.csv") if row["episode"] == 20_000]
    for control, switch, most in ((0.0, 0.0, 5000), (0.2, 0.1, 1000)):
        runs = [row for row in last if row["learner"] == "UCRL2-MC, structured" and row["control_cost"] == control]
        assert {row["switch_cost"] for row in runs} == {switch}
        assert {(row["radius"], row["scale"], row["delta"]) for row in runs} == {("printed", "agents 1, environment 1", 0.1)}
        assert max(row["regret"] for row in runs) < most
        assert all(row["left"] == 0 and row["above"] == 0 and row["looks"] == 20 for row in runs)


def test_which_learner_to_use_is_answered_from_the_promises():
    """The table of the document is that of the results."""
    table = (RESULTS / "promises.md").read_text()
    assert table == promises.overall(load_table(RESULTS / "promises.csv"))
    assert table in (ROOT / "docs" / "which-learner.md").read_text()


def test_the_league_in_the_document_is_that_of_the_results():
    rows = league.with_rivals(load_table(RESULTS / "league.csv"), RESULTS / league.RIVALS_FILE)
    table = league.overall(rows)
    assert table in (RESULTS / "league.md").read_text()
    assert table in (ROOT / "docs" / "which-learner.md").read_text()
    ours = [one for world in league.WORLDS for one in league.standings(rows, world) if one["learner"] == "recommended"]
    assert (sum(one["runs"] for one in ours), sum(one["stuck"] for one in ours)) == (100, 0)


def test_steps_until():
    run = [{"steps": n, "cost": c, "optimum": -2.0} for n, c in ((10, -1.0), (20, -1.95), (30, -1.5), (40, -1.91), (50, -2.0))]
    assert league.steps_until(run, 0.05) == 40
    assert league.steps_until(run, 0.6) == 10
    assert league.steps_until(run[:3], 0.05) == np.inf


def test_claims_cover_what_the_issue_lists(done):
    found = verdicts.all_findings(done)
    figures = {f.figure for f in found}
    assert figures == {name for name, _ in verdicts.CLAIMS}
    text = " ".join(f.claim for f in found)
    for word in (
        "sublinear",
        "linear regret",
        "comparable",
        "well below",
        "falls",
        "greatly benefit",
        "grows",
        "scale",
        "gains",
        "heavier",
    ):
        assert word in text, word
    for word in ("near-optimal", "worse than humans", "Theorem 2", "confidence sets"):
        assert word in text, word
    known = {finding.HOLDS, finding.FAILS, finding.TRIVIAL, finding.OPEN}
    for f in found:
        words = {part.split(": ")[-1] for part in f.verdict.split("; ")}
        assert words <= known, f
        assert f.measured
        assert f.statistic
    assert len(load_table(done / "claims.csv")) == len(found)


def test_report_is_one_file_with_every_picture(done):
    page = (done / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(FIGURES)
    assert "quick runs with few episodes" in page  # and so nothing is decided
    assert "does not hold" not in page
    assert 'src="http' not in page
    assert 'href="http' not in page
    for figure in FIGURES.values():
        assert f'id="{figure.name}"' in page


def test_shared_runs_are_run_once(done):
    options = Options(quick=True, episodes=10, repeats=2, out=done)
    single = {part.key for part in FIGURES["single-team"].parts(options)}
    assert {part.key for part in FIGURES["human-control"].parts(options)} <= single
    assert {part.key for part in FIGURES["trajectories"].parts(options)} <= single


def test_a_finished_figure_is_only_drawn_again(done, monkeypatch):
    monkeypatch.setattr("studies.run.run_parts", lambda parts, *_: {} if not parts else pytest.fail("ran again"))
    before = (done / "team-size.csv").read_bytes()
    run(chosen(["team-size"]), Options(quick=True, episodes=10, repeats=2, out=done), lambda text: None)
    assert (done / "team-size.csv").read_bytes() == before


def test_another_run_is_not_overwritten_unless_asked(done, tmp_path):
    out = tmp_path / "copy"
    out.mkdir()
    (out / "riverswim.csv").write_bytes((done / "riverswim.csv").read_bytes())
    with pytest.raises(ValueError, match="holds another run"):
        run(chosen(["riverswim"]), Options(quick=True, seed=5, out=out), lambda text: None)
    assert (out / "riverswim.csv").read_bytes() == (done / "riverswim.csv").read_bytes()
    run(chosen(["riverswim"]), Options(quick=True, seed=5, out=out, overwrite=True), lambda text: None)
    assert load_table(out / "riverswim.csv")[0]["base_seed"] == 5


def figure_command(out):
    size = ["--quick", "--episodes", "400", "--repeats", "2", "--jobs", "1"]
    return [sys.executable, "-m", "studies", "figure", "team-size", *size, "--out", str(out)]


def runs(pid):
    """Is the process there? One that ended may stay listed as a zombie where nobody asks for its result."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_killed_and_continued_gives_the_same_table(tmp_path):
    """kill -9 after the first part: the workers end too, and the same command again gives the same bytes."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(chosen(["team-size"]), Options(quick=True, episodes=400, repeats=2, jobs=2, out=whole), lambda text: None)
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(figure_command(broken), **silent, start_new_session=True, cwd=ROOT)
    parts, deadline = broken / "parts", time.monotonic() + 600
    while not list(parts.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 600
    while any(map(runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if runs(pid)]
    finished = len(list(parts.glob("*.json")))
    assert 0 < finished < len(list((whole / "parts").glob("*.json")))
    assert not (broken / "team-size.csv").exists()
    again = subprocess.run(figure_command(broken), check=True, capture_output=True, text=True, cwd=ROOT)
    assert "are there already" in again.stdout
    assert (broken / "team-size.csv").read_bytes() == (whole / "team-size.csv").read_bytes()


def test_number_of_jobs_changes_nothing(done, tmp_path):
    run(chosen(["action-size"]), Options(quick=True, episodes=10, repeats=2, jobs=1, out=tmp_path), lambda text: None)
    assert (tmp_path / "action-size.csv").read_bytes() == (done / "action-size.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure", "speed"], "figure: name is 'speed', must be all or one of together, desk, joins, overview, roads"),
        (["figure", "roads", "--episodes", "0"], "figure: episodes is 0, must be an integer of at least 1"),
        (["figure", "roads", "--repeats", "-3"], "figure: repeats is -3, must be an integer of at least 1"),
        (["figure", "roads", "--out", "/proc/nowhere"], "must be a directory that can be written"),
        (
            ["figure", "many-teams", "--radii", "wide"],
            "figure: radii is 'wide', must be one of 'printed', 'schedule', 'constant'",
        ),
        (["figure", "roads", "--radii", "printed"], "only many-teams has a choice"),
        (["claims", "--out", "nothing-here"], "must hold at least one figure"),
    ],
)
def test_mistakes(arguments, message):
    result = invoke(app, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_tables_of_other_versions_and_broken_tables_are_refused(tmp_path):
    path = tmp_path / "roads.csv"
    save_table(path, [{"a": 1, "cede": "0.0.9"}])
    with pytest.raises(ValueError, match=r"was made by cede 0\.0\.9, this is"):
        load_table(path)
    path.write_text("a,b\n")
    with pytest.raises(ValueError, match="is no table of cede, or was cut off"):
        load_table(path)
    with pytest.raises(ValueError, match="cannot be read"):
        load_table(tmp_path / "none.csv")
    result = invoke(app, ["figure", "roads", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert path.read_text() == "a,b\n"


def test_a_cut_off_part_is_run_again(tmp_path):
    run(chosen(["riverswim"]), Options(quick=True, out=tmp_path), lambda text: None)
    (part,) = (tmp_path / "parts").glob("*.json")
    whole = part.read_text()
    part.write_text(whole[: len(whole) // 2])
    (tmp_path / "riverswim.csv").unlink()
    run(chosen(["riverswim"]), Options(quick=True, out=tmp_path), lambda text: None)
    again, before = ({**json.loads(text), "took": None} for text in (part.read_text(), whole))
    assert again == before


def test_a_failing_part_says_why(tmp_path):
    bad = Part("runs.river:one_team", {"learner": "UCRL2-MC", "agents": [2.0], "macro": 1, "episodes": 1, "seed": 0}, 1, "bad")
    with pytest.raises(ValueError, match=r"riverswim: agents\[0\] is 2.0, must be a probability"):
        run_parts([bad], tmp_path, 1, lambda text: None)


def test_tables_keep_numbers_exactly(tmp_path):
    rows = [{"x": 0.1 + 0.2, "n": 3, "text": 'a, "b"', "none": "", "cede": cede.__version__}]
    save_table(tmp_path / "t.csv", rows)
    assert load_table(tmp_path / "t.csv") == rows
    with (tmp_path / "t.csv").open() as file:
        assert next(csv.reader(file)) == list(rows[0])


def test_part_names_depend_on_everything_that_decides_the_result():
    part = Part("runs.river:fleet_run", {"learner": "UCRL2-MC", "teams": 3, "episodes": 5, "seed": 0}, 15, "x")
    other = Part("runs.river:fleet_run", {**part.arguments, "seed": 1}, 15, "x")
    assert part.key != other.key
    assert part.key == Part("runs.river:fleet_run", dict(reversed(part.arguments.items())), 99, "y").key
    assert json.loads(json.dumps(part.arguments)) == part.arguments


def test_theorem_2_is_the_papers_last_line():
    task = riverswim(agents=[0.3, 0.7]).task
    T = 100 * 20
    expected = 13 * 20 * np.sqrt(2 * 6 * 2 * T * np.log(T * 6 * 2 / 0.1)) + 12 * 20 * 6 * np.sqrt(2 * T * np.log(T * 6 * 2 / 0.1))
    assert river.theorem_2(task, 100, 0.1) == pytest.approx(expected)


def test_statistics_of_claims():
    k = np.arange(1, 101)
    rows = [{"episode": int(i), "regret": float(3 * i**0.6), "seed": 0} for i in k]
    assert claim_statistics.exponent(rows) == pytest.approx(0.6)
    assert claim_statistics.sign_verdict(-0.2, 0.1, 5, negative=True) == finding.HOLDS
    assert claim_statistics.sign_verdict(0.2, 0.1, 5, negative=True) == finding.FAILS
    assert claim_statistics.sign_verdict(0.05, 0.1, 5, negative=True) == finding.OPEN
    assert claim_statistics.sign_verdict(-0.2, 0.0, 1, negative=True) == finding.OPEN
    looked = {"runs": 60, "run_episodes": 9, "left": 0, "delta": 0.1}
    assert [paper_river.covered({**looked, "left": left}).verdict for left in (0, 6, 30)] == [
        finding.HOLDS,
        finding.OPEN,
        finding.FAILS,
    ]
    assert finding.both({"UCRL2 (a)": "x", "UCRL2 (b)": "x"}) == "x"
    assert finding.both({"UCRL2 (a)": "x", "UCRL2 (b)": "y"}) == "a: x; b: y"
    points = [{"n": 1, "each": [1.0, 1.2]}, {"n": 2, "each": [2.0, 2.3]}, {"n": 3, "each": [3.0, 3.4]}]
    value, half, n = claim_statistics.slope(points, lambda row: row["n"])
    assert (value, n) == (pytest.approx(1.05), 2)
    assert half == pytest.approx(12.706 * 0.1 / np.sqrt(2) / np.sqrt(2), rel=1e-3)


def test_lane_run_in_pieces_is_one_run():
    """Looking at the policy on the way changes nothing."""
    outcome = lane.one_team("UCRL2-MC", "constant", (0.2, 0.1), 9, 4, lambda n: None)
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    learner = lane.make_learner("UCRL2-MC", mdp, "constant", 9, 4)
    regret = cede.simulate(mdp, learner, 9, seed=4, progress=False).regret
    np.testing.assert_array_equal([row["regret"] for row in outcome["curve"]], regret)
    assert {row["episode"] for row in outcome["drive"]} == {5, 9}


def test_the_page_of_verdicts_shows_the_result_files():
    """Neither the table of verdicts nor the claims are written by hand."""
    stored = load_table(RESULTS / "claims.csv", as_text=True)
    fresh = verdicts.all_findings(RESULTS)
    for name in ("claim", "verdict", "measured", "uncertainty"):
        assert [row[name] for row in stored] == [getattr(f, name) for f in fresh]
    text = (ROOT / "docs" / "verdicts.md").read_text()
    assert pages.with_verdicts(text, stored) == text
    assert all(row["quick"] == "0" for row in stored)


def test_the_page_of_figures_shows_every_figure_with_its_story():
    text = (ROOT / "docs" / "figures.md").read_text()
    assert with_gallery(text, RESULTS) == text
    assert all(f"](../studies/results/{name}.png)" in text for name in figures_in(RESULTS))
