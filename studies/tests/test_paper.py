"""The paper on one page: every figure in its place, errata, digests, and how tables differ from those of an earlier run."""

import csv
import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from studies import paper
from studies.__main__ import app
from studies.catalogue import FIGURES
from studies.claims import pages
from studies.figure import Options
from studies.parallel import save_outcome
from studies.run import TIMES, difference, times_in
from studies.tables import load_table

ROOT = Path(__file__).parent.parent.parent
RESULTS, ERRATA = ROOT / "studies" / "results", ROOT / "docs" / "paper-map.md"
invoke = CliRunner().invoke


@pytest.fixture
def stored(tmp_path):
    """A directory with the stored tables and pictures, as links."""
    for figure in paper.figures_of_paper():
        for ending in ("csv", "png"):
            (tmp_path / f"{figure.name}.{ending}").symlink_to(RESULTS / f"{figure.name}.{ending}")
    (tmp_path / TIMES).write_text((RESULTS / TIMES).read_text())
    return tmp_path


def changed(path, change):
    """Replace a table, which may be a link, by one whose rows went through a function."""
    with path.open(newline="") as file:
        rows = [*csv.DictReader(file)]
    path.unlink()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(change(rows))


def test_the_page_has_everything_in_the_order_of_the_paper(stored):
    text = paper.write_paper(stored, ERRATA, RESULTS).read_text()
    places = [text.index(f"Figure {place.number} of the paper") for place in paper.PLACES if place.number[0].isdigit()]
    assert places == sorted(places)
    for figure in paper.figures_of_paper():
        assert f'id="{figure.name}"' in text
        digest = hashlib.sha256((RESULTS / f"{figure.name}.csv").read_bytes()).hexdigest()
        assert f"<td>{figure.name}.csv</td>" in text
        assert f"<td>identical</td><td>{digest}</td>" in text
    assert text.count("data:image/png;base64,") == len(paper.figures_of_paper())
    assert "UCRL2-MC has sublinear regret in RiverSwim" in text
    errata = text[text.index('id="errata"') : text.index('id="tables"')]
    assert errata.count("<li>") >= 10
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_every_figure_of_the_paper_has_a_place_and_no_two():
    names = [name for place in paper.PLACES for name in place.ours]
    assert len(names) == len(set(names))
    assert set(names) <= set(FIGURES)


def test_a_directory_without_all_figures_is_refused(stored):
    (stored / "growth.csv").unlink()
    with pytest.raises(ValueError, match=r"paper: out is .*must hold all figures of the paper; missing: growth"):
        paper.write_paper(stored)


def test_how_tables_differ(tmp_path, stored):
    mine, other = stored / "team-size.csv", RESULTS / "team-size.csv"
    assert difference(mine, other) == "identical"
    assert difference(mine, tmp_path / "nothing.csv") == "not there"
    exact = load_table(other)[3]["regret"]
    cases = {
        "numbers differ by at most 1e-06 of themselves": {"regret": repr(exact * (1 + 1e-6))},
        "identical numbers": {"regret": f"{exact!r}0"},
        "other rows": {"learner": "another"},
        "other rows ": {"regret": "nan"},
        "of another version, or damaged": {"cede": "0.0.0"},
        "of a run with other options": {"quick": "1"},
    }
    for words, change in cases.items():
        mine.unlink()
        mine.symlink_to(other)
        place = 0 if "cede" in change or "quick" in change else 3
        changed(mine, lambda rows, place=place, change=change: [*rows[:place], {**rows[place], **change}, *rows[place + 1 :]])
        assert difference(mine, other) == words.strip()
    mine.unlink()
    mine.symlink_to(other)
    changed(mine, lambda rows: rows[1:])
    assert difference(mine, other) == "other rows"
    found = paper.compare_tables(stored, RESULTS)
    assert {name for name, words in found.items() if words != "identical"} == {"team-size"}
    mine.unlink()
    mine.symlink_to(other)
    changed(mine, lambda rows: [{**rows[0], "regret": f"{rows[0]['regret']}0"}, *rows[1:]])
    assert "<td>identical numbers</td>" in paper.write_paper(stored, before=RESULTS).read_text()


def test_the_time_of_all_runs_counts_shared_ones_once(tmp_path, monkeypatch):
    """`single-team`, `trajectories` and `human-control` share runs."""
    figures = [FIGURES[name] for name in ("trajectories", "single-team", "human-control")]
    options = Options(quick=True, out=tmp_path)
    monkeypatch.setattr(paper, "figures_of_paper", lambda: figures)
    monkeypatch.setattr(paper, "run", lambda *more: (tmp_path / "parts").mkdir(exist_ok=True))
    paper.run_paper(options)
    assert times_in(tmp_path) == {}  # not all are there
    keys = {part.key for figure in figures for part in figure.parts(options)}
    assert len(keys) < sum(len(figure.parts(options)) for figure in figures)
    for key in keys:
        save_outcome(tmp_path / "parts" / f"{key}.json", {"took": [{"seconds": 1.5}]})
    paper.run_paper(options)
    assert json.loads((tmp_path / TIMES).read_text()) == {paper.TOGETHER: {"runs": len(keys), "seconds": 1.5 * len(keys)}}


def test_the_command_says_which_tables_came_out_the_same(stored, monkeypatch):
    """With all tables there, it only draws them again, into links that it replaces."""
    monkeypatch.setattr("studies.run.run_parts", lambda parts, *more: {} if not parts else pytest.fail("it ran"))
    found = invoke(app, ["paper", "--out", str(stored), "--against", str(RESULTS), "--errata", str(ERRATA)])
    assert found.exit_code == 0, found.output
    assert found.output.count("identical") == len(paper.figures_of_paper())
    assert f"page: {stored}" in found.output.replace("\n", "")


def test_what_is_wrong_is_told_before_hours_of_computing(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "run_paper", lambda *more: pytest.fail("it ran"))
    empty, bytes_only = tmp_path / "empty.md", tmp_path / "bytes"
    empty.write_text("# No such part\n")
    bytes_only.write_bytes(b"\xff\xfe\x00")
    page = "must be a page with a part '## Errata' and a numbered list"
    for option, value, expected in (
        ("against", tmp_path / "nowhere", "must be a directory"),
        ("errata", tmp_path / "nowhere", f"{page}; it cannot be read"),
        ("errata", tmp_path, f"{page}; it cannot be read"),
        ("errata", bytes_only, f"{page}; it cannot be read"),
        ("errata", empty, page),
    ):
        wrong = invoke(app, ["paper", "--out", str(tmp_path / "out"), f"--{option}", str(value)])
        assert wrong.exit_code == 2
        assert f"paper: {option} is" in wrong.output
        assert expected in " ".join(wrong.output.split())
    assert not (tmp_path / "out").exists()


def test_claims_of_quick_runs_are_not_decided(tmp_path):
    """Nor shown in a terminal, where nothing else would say that they are of quick runs."""
    for name in ("team-size", "roads"):
        for ending in ("csv", "png"):
            (tmp_path / f"{name}.{ending}").symlink_to(RESULTS / f"{name}.{ending}")
    full = invoke(app, ["claims", "--out", str(tmp_path)])
    assert full.exit_code == 0, full.output
    assert "UCRL2-MC gains" in full.output
    changed(tmp_path / "team-size.csv", lambda rows: [{**row, "quick": "1"} for row in rows])
    quick = invoke(app, ["claims", "--out", str(tmp_path)])
    assert quick.exit_code == 0, quick.output
    assert "decide no claim" in " ".join(quick.output.split())
    assert "UCRL2-MC gains" not in quick.output
    page = tmp_path / "page.md"
    page.write_text(f"{pages.BEGIN}\n{pages.END}\n")
    refused = invoke(app, ["claims", "--out", str(tmp_path), "--page", str(page)])
    assert refused.exit_code == 2
    assert "must be left out with quick runs" in " ".join(refused.output.split())
    assert "holds" not in page.read_text()


def test_a_page_that_cannot_be_written_to_is_told_first(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.claims.verdicts.all_findings", lambda out: pytest.fail("it was computed"))
    for ending in ("csv", "png"):
        (tmp_path / f"roads.{ending}").symlink_to(RESULTS / f"roads.{ending}")
    bare = tmp_path / "bare.md"
    bare.write_text("# No marks\n")
    for option, value, expected in (
        ("page", tmp_path / "nowhere.md", "must be a page of text that can be read"),
        ("page", bare, "must be a page with one line '<!-- verdicts:"),
        ("gallery", bare, "must be a page with one line '<!-- figures:"),
    ):
        wrong = invoke(app, ["claims", "--out", str(tmp_path), f"--{option}", str(value)])
        assert wrong.exit_code == 2
        assert f"claims: {option} is" in wrong.output
        assert expected in " ".join(wrong.output.split())
