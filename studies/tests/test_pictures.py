"""The pictures, drawn from parts of the stored tables: nothing is hidden, cut off, too small or unexplained."""

import re
import shutil
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from studies import style
from studies.catalogue import FIGURES, figures_in
from studies.claims import finding, paper_river
from studies.figures import league
from studies.tables import load_table

pytest.importorskip("matplotlib")

from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text

RESULTS = Path(__file__).parent.parent / "results"
STORED = list(figures_in(RESULTS))  # test_results.py says which are missing
LONG = ("promises", "structure", "freshness", "unknown-costs", "never-worse", "single-team")


def drawn(name, rows, where):
    """The pictures of a figure, not saved; the caption was put below what was laid out."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save", lambda picture, path: found.append(picture) or [])
        FIGURES[name].draw(rows, where / name)
    return found


def some_rows(name, seeds=2):
    """The first seeds of a table (roads have one each), and of the longest curves every eighth point and the last one."""
    rows = load_table(RESULTS / f"{name}.csv")
    if name != "roads":
        rows = [row for row in rows if row.get("seed", "") in ("", *range(seeds))]
    if name in LONG:
        kept = {*sorted({row["episode"] for row in rows})[::8], rows[0]["episodes"]}
        rows = [row for row in rows if row["episode"] in kept]
    return rows


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    shutil.copy(RESULTS / league.RIVALS_FILE, folder)
    return folder


@pytest.fixture(scope="module")
def pictures(where):
    """All pictures by name of their figure; closed by hand, because many are open at once."""
    plt = pytest.importorskip("matplotlib.pyplot")
    with plt.rc_context({"figure.max_open_warning": 0}):
        yield {name: drawn(name, some_rows(name), where) for name in STORED}
    plt.close("all")


def texts(picture):
    """All that can be read in a picture."""
    return [text for text in picture.findobj(Text) if text.get_visible() and text.get_text().strip()]


def caption(picture):
    (text,) = [text for text in picture.texts if text.get_gid() == "caption"]
    return " ".join(text.get_text().replace("\u00a0", " ").split())


def panels(picture):
    return [axes for axes in picture.axes if axes.get_visible()]


def curves(axes):
    """The lines of a panel that are drawn in its own coordinates, with more than one point."""
    own = [line for line in axes.lines if line.get_transform() == axes.transData]
    return [line for line in own if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]


@pytest.mark.parametrize("name", STORED)
def test_legends_lie_beside_the_panels(pictures, name):
    for picture in pictures[name]:
        legends = [*picture.legends, *(axes.get_legend() for axes in panels(picture) if axes.get_legend())]
        for legend in legends:
            box = legend.get_window_extent()
            assert not [axes for axes in panels(picture) if box.overlaps(axes.get_window_extent())]
        assert all(not a.get_window_extent().overlaps(b.get_window_extent()) for a, b in combinations(legends, 2))


@pytest.mark.parametrize("name", STORED)
def test_it_can_be_read_in_print(pictures, name):
    for picture in pictures[name]:
        assert picture.get_tightbbox().width < 7.2
        assert min(text.get_fontsize() for text in texts(picture)) >= 7
        shown = " ".join(text.get_text() for text in texts(picture))
        assert not re.search(r"c_c|c_x|\$k\$|gamma|mathbb|\\times|×|\d{5,}", shown)


@pytest.mark.parametrize("name", STORED)
def test_no_label_lies_on_another(pictures, name):
    for picture in pictures[name]:
        boxes = []
        for axes in panels(picture):
            labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
            boxes += [text.get_window_extent() for text in labels if text.get_visible() and text.get_text() and ticked(axes, text)]
            boxes += [Text.get_window_extent(text) for text in axes.texts if isinstance(text, Annotation)]
            boxes += [text.get_window_extent() for text in (axes.xaxis.label, axes.yaxis.label) if text.get_text()]
        assert not [(a, b) for a, b in combinations(boxes, 2) if a.padded(-0.5).overlaps(b.padded(-0.5))]


def ticked(axes, label):
    """Is the tick of a label within the limits? Others are not drawn."""
    x, y = label.get_position()
    (left, right), (low, high) = axes.get_xlim(), sorted(axes.get_ylim())
    return left <= x <= right if label in axes.get_xticklabels() else low <= y <= high


@pytest.mark.parametrize("name", STORED)
def test_no_curve_is_cut_off(pictures, name):
    for axes in (axes for picture in pictures[name] for axes in panels(picture)):
        (left, right), (low, high) = axes.get_xlim(), sorted(axes.get_ylim())
        for line in curves(axes):
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            inside = (x >= left) & (x <= right)
            if axes.get_yscale() == "log":
                inside &= y > 0
            slack = 1e-9 * (high - low)
            assert (y[inside] >= low - slack).all()
            assert (y[inside] <= high + slack).all()


@pytest.mark.parametrize("name", STORED)
def test_curves_of_a_panel_can_be_told_apart(pictures, name):
    """Few have the same colour; those have different lines."""
    for axes in (axes for picture in pictures[name] for axes in panels(picture)):
        named = Counter(line.get_color() for line in curves(axes) if not line.get_label().startswith("_"))
        assert max(named.values(), default=0) <= 3


@pytest.mark.parametrize("name", STORED)
def test_the_grid_lies_below_bars(pictures, name):
    for axes in (axes for picture in pictures[name] for axes in panels(picture)):
        if [patch for patch in axes.patches if isinstance(patch, Rectangle)]:
            assert axes.get_axisbelow() is True


@pytest.mark.parametrize("name", STORED)
def test_captions_have_at_most_two_lines(pictures, name):
    """Settings, seeds and versions stand on the page."""
    for picture in pictures[name]:
        (text,) = [text for text in picture.texts if text.get_gid() == "caption"]
        assert len(text.get_text().splitlines()) <= 2
        assert not re.search(r"seed|cede|\d repeats", text.get_text())
        assert not picture.get_suptitle() or "\n" not in picture.get_suptitle()


@pytest.mark.parametrize("name", STORED)
def test_stored_pictures_hold_their_settings(name):
    assert "made with cede" in style.settings_of(RESULTS / f"{name}.png").lower()


@pytest.mark.parametrize("name", STORED)
def test_settings_explain_what_is_seen(pictures, name):
    for picture in pictures[name]:
        small = picture.get_label()
        shown = "\n".join(text.get_text() for text in texts(picture))
        for word, sentence in style.GLOSSARY.items():
            if word in shown:
                assert f"{sentence.split(':')[0]}:".lower() in small.lower(), word
        if "95%" in caption(picture):
            marks = [mark for axes in panels(picture) for mark in (*axes.collections, *axes.lines)]
            assert [mark for mark in marks if isinstance(mark, PolyCollection | LineCollection) or mark.get_gid()]


@pytest.mark.parametrize("name", ["team-size", "freshness", "newcomer", "guarantee", "planning", "roads", "automation"])
def test_without_repeats_there_is_no_interval(where, name):
    """One seed has no interval, and no road and no exact number has one."""
    for picture in drawn(name, some_rows(name, seeds=1), where):
        assert "95%" not in caption(picture)
        assert not [band for axes in panels(picture) for band in axes.collections if isinstance(band, PolyCollection)]


def test_titles_and_stories_are_true_of_every_run():
    """They stand over quick runs too, so they name no number of teams or episodes."""
    for figure in FIGURES.values():
        assert not re.search(r"\b(\d|ten\b|hundred|thousand|three\b|four\b)", words(figure)), figure.name


def words(figure):
    return f"{figure.title} {figure.story}".lower().replace("theorem 2", "the theorem")


def test_spread_moves_labels_apart():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 14):
        places = rng.uniform(0, 1, n).tolist()
        moved = style.spread(places, 0.06)
        ordered = sorted(moved)
        assert all(b - a > 0.06 - 1e-9 for a, b in pairwise(ordered))
        assert np.array_equal(np.argsort(places), np.argsort(moved))
        assert 0 <= ordered[0] <= ordered[-1] <= 1
    assert style.spread([0.9, 0.1, 0.5], 0.2) == [0.9, 0.1, 0.5]
    assert style.spread([0.5, 0.5], 0.2) == pytest.approx([0.4, 0.6])


def test_a_trend_that_turns_is_judged_on_both_sides():
    """Rises from 2 to 4 actions and falls from there to 16; one line through all points would rise."""
    ratio = {2: 1.0, 4: 2.6, 8: 2.5, 16: 2.3}
    rows = []
    for seed, actions in ((seed, actions) for seed in range(3) for actions in ratio):
        for name in ("UCRL2-MC", *finding.BASELINES):
            regret = (ratio[actions] + 0.01 * seed) * 10 if name == "UCRL2-MC" else 10.0
            rows.append({"learner": name, "actions": actions, "seed": seed, "episode": 5, "episodes": 5, "regret": regret})
    whole, up, down, scale = paper_river.action_size(rows)
    assert whole.verdict == "2 to 4: holds; 4 to 16: does not hold"  # though the line through all points rises
    assert "same-form +0." in whole.measured
    assert (up.claim, up.verdict) == ("The ratio grows with the action space, from 2 to 4 actions", finding.HOLDS)
    assert (down.claim, down.verdict) == ("The ratio grows with the action space, from 4 to 16 actions", finding.FAILS)
    assert "+1.600 (1.01 at 2 to 2.61 at 4)" in up.measured
    assert scale.verdict == finding.HOLDS
