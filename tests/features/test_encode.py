"""Encoders: numbers become states, one by one and in rows, by every kind; files hold them as they are."""

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import cede
from cede._base import archive
from cede.cli import app
from cede.features.encode import Bins, Categories, Clusters, Counter, Flag, Grid, Product, Score

BINS = cede.encode.uniform_bins([-1, 0], [1, 10], [4, 5], labels=["angle", "speed"], name="pole")
SCORE = Score([0.5, -2.0, 1.0], [-1.0, 0.0, 2.5], offset=0.25, labels=["a", "b", "c"])
CLUSTERS = Clusters([[0.0, 0.0], [1.0, 10.0], [2.0, 0.0]], [1.0, 10.0], ["x", "y"])
GRID = Grid((2, 3), (0, 5), ["gear", "lane"])
ALL = {
    "bins": BINS,
    "refusing bins": cede.encode.uniform_bins([-9, -9], [9, 9], 3, outside="refuse"),
    "score": SCORE,
    "clusters": CLUSTERS,
    "product": Product([BINS, SCORE, CLUSTERS]),
    "product of columns": Product([BINS, CLUSTERS], columns=[[0, 1], [1, 2]]),
}


def rows_for(encoder, n=200, seed=0):
    return np.random.default_rng(seed).normal(size=(n, len(encoder.inputs))) * 2


# ------------------------------------------------------------------------------------------------- twins, slow and obvious


def bin_of(edges, x):
    return sum(edge <= x for edge in edges)


def slow(encoder, row):
    if isinstance(encoder, Bins):
        state = 0
        for edges, x in zip(encoder.edges, row, strict=True):
            state = state * (len(edges) + 1) + bin_of(edges, x)
        return state
    if isinstance(encoder, Score):
        return bin_of(encoder.cuts, encoder.offset + sum(w * x for w, x in zip(encoder.weights, row, strict=True)))
    if isinstance(encoder, Clusters):
        distances = [
            sum(((x - c) / s) ** 2 for x, c, s in zip(row, centre, encoder.scale, strict=True)) for centre in encoder.centres
        ]
        return distances.index(min(distances))
    state = 0
    for one, columns in zip(encoder.encoders, encoder.columns, strict=True):
        state = state * one.n_states + slow(one, [row[c] for c in columns])
    return state


@pytest.mark.parametrize("name", ALL)
def test_states_are_those_of_the_twin(name):
    encoder = ALL[name]
    rows = rows_for(encoder)
    states = encoder.states(rows)
    assert states.dtype == np.int64
    assert states.tolist() == [slow(encoder, row) for row in rows] == [encoder(row) for row in rows]
    assert states.min() >= 0
    assert states.max() < encoder.n_states
    frame = pandas.DataFrame(rows[:, ::-1], columns=encoder.inputs[::-1])
    np.testing.assert_array_equal(encoder.states(frame), states)
    assert encoder(dict(zip(encoder.inputs, rows[0], strict=True))) == states[0]
    assert encoder.states(rows[:0]).tolist() == []


@pytest.mark.parametrize("name", ALL)
def test_names_and_features_fit_the_states(name):
    """Names parse as features, one name for each state, and features tell the same states apart."""
    encoder = ALL[name]
    names, features = encoder.state_names, encoder.features
    assert len(names) == len(set(names)) == len(features) == encoder.n_states
    assert features.shape[1] == len(encoder.feature_names) == len(encoder.sizes)
    assert len(np.unique(features, axis=0)) == encoder.n_states
    task = cede.Task(env_cost=np.zeros((encoder.n_states, 2)), agents=["a"], horizon=2, state_names=names)
    from cede.problem.features import read_features

    read = read_features("test", task, None, None)
    assert read.names == encoder.feature_names
    for f in range(features.shape[1]):  # the same partition of the states
        pairs = set(zip(read.codes[:, f].tolist(), features[:, f].tolist(), strict=True))
        assert len(pairs) == encoder.sizes[f]
    by_array = read_features("test", task, features, encoder.feature_names)
    assert by_array.names == encoder.feature_names


def test_what_states_are_called():
    assert BINS.state_names[0] == "angle=below -0.5, speed=below 2"
    assert BINS.state_names[-1] == "angle=from 0.5, speed=from 8"
    assert SCORE.state_names == ["score=below -1", "score=-1 to 0", "score=0 to 2.5", "score=from 2.5"]
    assert CLUSTERS.state_names[1] == "cluster=1 near x 1 y 10"
    assert GRID.state_names[4] == "gear=1, lane=6"
    assert Grid((2, 3), (0, 5)).state_names[4] == "1 6"
    both = Product([SCORE, replace(SCORE, labels=("d", "e", "f"))])
    assert both.feature_names == ("score", "score 2")
    assert both.inputs == ("a", "b", "c", "d", "e", "f")
    assert cede.encode.uniform_bins(0, 1, 2, labels=["a=b, c"]).state_names == ["a b  c=below 0.5", "a b  c=from 0.5"]


@pytest.mark.parametrize(
    "values", [[0.0] * 90 + [1.0] * 10, [0.0] * 98 + [1.0, 2.0], [5.0] * 10, [0.0, 5e-324], [1.0, 1.0 + 2**-52, 3.0]]
)
def test_few_values_have_a_bin_each(values):
    encoder = cede.encode.quantile_bins([[value] for value in values], 4)
    assert encoder.n_states == len(set(values))
    assert sorted(set(encoder.states(values).tolist())) == list(range(encoder.n_states))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-5, 5) | st.floats(-1e300, 1e300), min_size=1, max_size=40), st.integers(1, 6))
def test_no_bin_is_empty(values, bins):
    encoder = cede.encode.quantile_bins([float(value) for value in values], bins)
    met = np.bincount(encoder.states([float(value) for value in values]), minlength=encoder.n_states)
    assert met.min() > 0
    assert encoder.n_states <= bins
    assert encoder.n_states == len({float(value) for value in values}) or len({float(value) for value in values}) > bins


def test_names_from_a_data_frame():
    data = pandas.DataFrame({"load": [0.0, 1.0, 2.0, 3.0], 7: [0.0, 0.0, 1.0, 1.0]})
    for encoder in (cede.encode.quantile_bins(data, 2), cede.encode.clusters(data, 2)):
        assert encoder.inputs == ("load", "7")
    assert cede.encode.quantile_bins(data, 2, labels=["a", "b"]).inputs == ("a", "b")
    assert cede.encode.quantile_bins(data, 2).state_names[1] == "load=below 1.5, 7=from 0.5"


def test_many_rows_are_given_as_one_is():
    rows = [{"angle": 0.1, "speed": 3.0}, {"speed": 9.0, "angle": -0.9}]
    states = [BINS(row) for row in rows]
    assert BINS.states(rows).tolist() == states
    assert BINS.states([rows[0], [-0.9, 9.0]]).tolist() == states
    assert BINS.states({"speed": [3.0, 9.0], "angle": [0.1, -0.9]}).tolist() == states
    assert BINS.states([[[0.1], [3.0]], [[-0.9], [9.0]]]).tolist() == states
    one = cede.encode.uniform_bins(0, 1, 2, labels=["x"])
    assert one.states([0.1, 0.9]).tolist() == [one(0.1), one(0.9)] == [0, 1]
    with pytest.raises(ValueError, match=r"encode: speed in row 1 is missing, must be there: the observation has \['angle'\]"):
        BINS.states([rows[0], {"angle": 0.1}])
    with pytest.raises(ValueError, match=r"the column 'speed' of rows is missing, must be there: it has \['angle'\]"):
        BINS.states({"angle": [0.1]})
    with pytest.raises(ValueError, match=r"the shape of rows is no array of numbers, must be \(n, 2\)"):
        BINS.states({"angle": [0.1, 0.2], "speed": [1.0]})


def test_scores_and_grids_in_short():
    score = Score({"a": 0.5, "b": -2.0, "c": 1.0}, [-1.0, 0.0, 2.5], offset=0.25)
    assert score.digest == SCORE.digest
    assert Score({"a": 1.0}, [0.0], name="risk").state_names == ["risk=below 0", "risk=from 0"]
    with pytest.raises(ValueError, match=r"Score: labels is \['b'\], must be left out where weights are given by name"):
        Score({"a": 1.0}, [0.0], labels=["b"])
    with pytest.raises(ValueError, match=r"Score: weights\['a'\] is 'x', must be a finite number"):
        Score({"a": "x"}, [0.0])
    assert Grid((2, 3)).digest == Grid((2, 3), (0, 0)).digest
    assert Grid([2, 3])([1, 2]) == 5


def test_the_command_shows_what_states_are(tmp_path):
    for encoder in (*ALL.values(), GRID, WORK):
        result = CliRunner().invoke(app, ["show", str(encoder.save(tmp_path / "e.cede"))], env={"COLUMNS": "500"})
        assert result.exit_code == 0, result.output
        text = " ".join(result.output.split())
        for name, values in encoder.parts:
            assert name in text
            assert values[0] in text
        assert encoder.state_names[0] in text
        assert f"{encoder.n_states:,} states" in text
    with pytest.raises(ValueError, match=r"save: path is '.*', must be the path of a file: it is a directory"):
        BINS.save(tmp_path)


def test_bins_hold_equally_many():
    data = np.random.default_rng(0).exponential(size=(10_000, 2))
    found = np.bincount(cede.encode.quantile_bins(data, [4, 5]).states(data), minlength=20)
    assert found.min() > 350
    assert found.max() < 650


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=True), min_size=2, max_size=2))
def test_every_number_is_in_a_bin(row):
    assert 0 <= BINS(row) == slow(BINS, row) < 20


def test_missing_and_outside():
    with pytest.raises(ValueError, match="encode: speed is nan, must be a number"):
        BINS([0.0, np.nan])
    with pytest.raises(ValueError, match="encode: speed in row 1 is nan, must be a number"):
        BINS.states([[0.0, 1.0], [0.0, np.nan]])
    assert BINS([-99, 99]) == BINS([-1, 10])
    refusing = cede.encode.uniform_bins([-1, 0], [1, 10], [4, 5], labels=["angle", "speed"], outside="refuse")
    assert refusing([1.0, 10.0]) == BINS([1.0, 10.0])
    with pytest.raises(ValueError, match=r"encode: angle is -1.01, must be from -1 to 1"):
        refusing([-1.01, 3])
    for encoder in (SCORE, CLUSTERS):
        with pytest.raises(ValueError, match=r"encode: \w is inf, must be a finite number"):
            encoder([np.inf] * len(encoder.inputs))
    with pytest.raises(ValueError, match=r"encode: speed is missing, must be there: the observation has \['angle'\]"):
        BINS({"angle": 0.0})
    with pytest.raises(ValueError, match=r"encode: the column 'speed' of rows is missing"):
        BINS.states(pandas.DataFrame({"angle": [0.0]}))
    with pytest.raises(ValueError, match=r"the shape of rows is \(3,\), must be \(n, 2\)"):
        BINS.states([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="the observation is 'ab', must be 2 numbers"):
        BINS("ab")
    assert GRID.states([[0, 5], [1, 7]]).tolist() == [0, 5]
    with pytest.raises(ValueError, match=r"encode: lane is 5.5, must be a whole number from 5 to 7"):
        GRID.states([[0, 5.5]])


# ------------------------------------------------------------------------------------------------- names

WORK = Categories({"kind": ["repair", "question", "other"], "site": ["A", "B"]})


def test_categories_are_names(tmp_path):
    """Every combination of names has its own state, in rows, by name, in a frame, in a product with numbers, from a file."""
    pairs = [(kind, site) for kind in ("repair", "question", "other") for site in ("A", "B")]
    assert [WORK(pair) for pair in pairs] == WORK.states(pairs).tolist() == list(range(6)) == list(range(WORK.n_states))
    assert WORK({"site": "B", "kind": "question"}) == 3
    assert WORK.state_names[3] == "kind=question, site=B"
    frame = pandas.DataFrame(pairs, columns=["kind", "site"])
    assert WORK.states(frame).tolist() == WORK.states(np.array(pairs)).tolist() == list(range(6))
    assert WORK.states([]).tolist() == []
    assert Categories([["no", "yes"]])("yes") == 1
    assert Categories([["no", "yes"]]).states(["yes", "no"]).tolist() == [1, 0]

    both = Product([cede.encode.uniform_bins(0, 1, 2, labels=["load"]), WORK], columns=[[1], [0, 2]])
    assert both.inputs == ("kind", "load", "site")
    assert both(["other", 0.7, "A"]) == both({"site": "A", "load": 0.7, "kind": "other"}) == 6 + 4
    assert both.states({"kind": ["other"], "load": [0.2], "site": ["B"]}).tolist() == [5]
    assert both.state_names[10] == "load=from 0.5, kind=other, site=A"
    for encoder in (WORK, both):
        loaded = cede.load(encoder.save(tmp_path / "names.cede"))
        assert (loaded.digest, loaded.state_names) == (encoder.digest, encoder.state_names)
    assert cede.load(tmp_path / "names.cede")(["other", 0.7, "A"]) == 10


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="encode: kind is 'repairs', must be one of 'repair', 'question', 'other'"):
        WORK(["repairs", "A"])
    with pytest.raises(ValueError, match="encode: site in row 1 is 0, must be one of 'A', 'B'"):
        WORK.states([["other", "A"], ["other", 0]])
    with pytest.raises(ValueError, match=r"encode: the observation is \['other'\], must be 2 values"):
        WORK(["other"])
    with pytest.raises(ValueError, match=r"the column 'site' of rows is missing, must be there: it has \['kind'\]"):
        WORK.states({"kind": ["other"]})
    with pytest.raises(ValueError, match=r"the shape of rows is no array of numbers, must be \(n, 2\)"):
        WORK.states({"kind": ["other"], "site": ["A", "B"]})


# ------------------------------------------------------------------------------------------------- clusters


def test_clusters_are_found():
    """Three clouds far from one another: each is a state; scikit-learn's own answer is the second opinion."""
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 3.0]])
    which = rng.integers(3, size=600)
    data = centres[which] + rng.normal(size=(600, 2)) * [5.0, 0.1]
    encoder = cede.encode.clusters(data, 3, seed=1, labels=["x", "y"], name="clouds")
    states = encoder.states(data)
    for cloud in range(3):
        assert len(set(states[which == cloud])) == 1
    assert len(set(states)) == 3
    assert np.lexsort(encoder.centres.T[::-1]).tolist() == [0, 1, 2]
    own = KMeans(3, n_init=10, random_state=1).fit(data / data.std(axis=0))
    np.testing.assert_allclose(np.sort(encoder.centres[:, 0]), np.sort(own.cluster_centers_[:, 0] * data.std(axis=0)[0]))
    assert cede.encode.clusters(data, 3, seed=1, labels=["x", "y"]).digest == encoder.digest
    assert cede.encode.clusters(data, 2, same_scale=True).scale.tolist() == [1.0, 1.0]
    constant = np.column_stack([data[:, 0], np.full(600, 7.0)])
    assert cede.encode.clusters(constant, 2).n_states == 2
    with pytest.raises(ValueError, match="clusters: n is 3, must be at most 2, the number of different rows"):
        cede.encode.clusters([[0.0], [1.0], [1.0]], 3)
    with pytest.raises(ValueError, match=r"observations is .* must be a"):
        cede.encode.clusters([[0.0], [np.nan]], 1)


def test_fitting_needs_an_extra_and_using_does_not(tmp_path, monkeypatch):
    CLUSTERS.save(tmp_path / "c.cede")
    code = f"""
import sys
sys.modules["sklearn"] = None
import cede
encoder = cede.encode.load({str(tmp_path / "c.cede")!r})
print(encoder([1.1, 9.0]), "numba" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split() == ["1", "False"]
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "sklearn.cluster", raising=False)
    with pytest.raises(ImportError, match=r'pip install "cede\[encode\]"'):
        cede.encode.clusters([[0.0], [1.0]], 2)


# ------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ALL)
def test_files(name, tmp_path):
    encoder = replace(ALL[name], name="mine \x1b[2J")
    path = encoder.save(tmp_path / "encoder.cede")
    rows = rows_for(encoder)
    for loaded in (cede.encode.load(path), cede.load(path), cede.load(path.read_bytes())):
        assert type(loaded) is type(encoder)
        assert (loaded.name, loaded.digest, loaded.state_names) == (encoder.name, encoder.digest, encoder.state_names)
        np.testing.assert_array_equal(loaded.states(rows), encoder.states(rows))
    assert "\x1b" not in repr(encoder)
    assert encoder.digest == ALL[name].digest
    header, _ = archive.load_arrays(path, "encoder", 1)
    assert (header["name"], header["digest"], header["n_states"]) == (encoder.name, encoder.digest, encoder.n_states)


def test_files_of_schema_1_are_read():
    """What an earlier version wrote: a product of all kinds. Its digest has stayed."""
    path = Path(__file__).parent.parent / "golden" / "encoder-schema-1.cede"
    encoder = cede.load(path)
    assert (encoder.name, encoder.n_states) == ("golden", 4 * 5 * 4 * 3 * 6)
    assert encoder.digest == Product([BINS, SCORE, CLUSTERS, GRID]).digest
    row = [0.1, 3.0, 1.0, 2.0, 3.0, 1.0, 9.0, 1, 6]
    assert encoder(row) == ((BINS(row[:2]) * 4 + SCORE(row[2:5])) * 3 + CLUSTERS(row[5:7])) * 6 + GRID([1, 6])


def test_digests_tell_encoders_apart():
    others = [*ALL.values(), GRID, WORK, replace(BINS, labels=None), replace(SCORE, offset=0.5), replace(SCORE, cuts=[0.0])]
    assert len({encoder.digest for encoder in others}) == len(others)


def test_damaged_and_forged_files(tmp_path):
    path = BINS.save(tmp_path / "encoder.cede")
    data = path.read_bytes()
    for cut in range(0, len(data), 97):
        with pytest.raises(cede.UnreadableFile):
            cede.encode.load(data[:cut])
    header, arrays = archive.load_arrays(path, "encoder", 1)
    told = {name: value for name, value in header.items() if name not in ("kind", "schema")}
    forged = [
        {**told, "digest": "0" * 64},
        {**told, "name": "another"},
        {**told, "encoder": {"class": "Task"}},
        {**told, "encoder": 3},
    ]
    for wrong in forged:
        archive.save_arrays(path, "encoder", 1, wrong, arrays)
        with pytest.raises(cede.UnreadableFile):
            cede.load(path)
    learner = cede.ucrl2_mc(cede.Task(env_cost=[[0.0]], agents=["a"], horizon=1))
    learner.save(path)
    with pytest.raises(cede.UnreadableFile, match=r"must be .* encoder"):
        cede.encode.load(path)
    with pytest.raises(FileNotFoundError):
        cede.encode.load(tmp_path / "nowhere")


# ------------------------------------------------------------------------------------------------- bad input

CASES = {
    "limits": (lambda: Bins([[0.0, 1.0]], limits=[[0.5, 2.0]]), r"Bins: limits\[0\] is \[.*\], must be around all edges"),
    "outside": (lambda: cede.encode.uniform_bins(0, 1, 2, outside="no"), "outside is 'no', must be one of 'outer', 'refuse'"),
    "edges": (lambda: Bins([[1.0, 0.0]]), r"Bins: edges\[0\] is \[1.0, 0.0\], must be finite numbers, each above the one before"),
    "weights": (lambda: Score([[1.0]], [0.0]), "Score: the shape of weights"),
    "cuts": (lambda: Score([1.0], [0.0, 0.0]), "Score: cuts is"),
    "scale": (lambda: Clusters([[0.0, 1.0]], [1.0, 0.0]), r"Clusters: scale\[1\] is 0.0, must be above 0"),
    "labels": (lambda: Score([1.0], [0.0], labels=["a", "b"]), "Score: the length of labels is 2, must be 1"),
    "name": (lambda: Score([1.0], [0.0], name=""), "Score: name is '', must be a non-empty string"),
    "no encoders": (lambda: Product([]), "Product: encoders is empty"),
    "encoders": (lambda: Product([3]), r"Product: encoders\[0\] is 3, must be an Encoder"),
    "columns": (lambda: Product([BINS], columns=[[0]]), r"Product: columns\[0\] is \[0\], must be 2 indices from 0 on"),
    "gap": (lambda: Product([BINS], columns=[[0, 2]]), r"Product: columns is \[0, 2\], must be all from 0 to 1"),
    "states": (lambda: Product([cede.encode.uniform_bins([0] * 6, [1] * 6, 10)] * 2), "the number of states is 1000000000000"),
    "no categories": (lambda: Categories([]), r"Categories: values is \[\], must be those of at least one input"),
    "no names": (lambda: Categories([[]]), r"Categories: values\[0\] is \[\], must be at least one name"),
    "a name twice": (
        lambda: Categories([["a", "a"]]),
        r"Categories: values\[0\] is \['a', 'a'\], must be at least one name, all of",
    ),
    "a name that is none": (lambda: Categories([["a", 3]]), r"Categories: a name in values\[0\] is 3, must be a non-empty string"),
    "labels twice": (lambda: Categories({"x": ["a"]}, labels=["y"]), r"Categories: labels is \['y'\], must be left out"),
    "names as numbers": (lambda: Product([WORK, BINS], columns=[[0, 1], [1, 2]]), r"columns\[0\] is \[0, 1\], must be names for"),
    "grid": (lambda: Grid((0,), (0,)), r"Grid: n_values is \(0,\)"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case):
    make, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_encoders_in_ones_own_loop():
    """States from measured numbers, by name, for a task without Gymnasium; the same functions are those of cede.gym."""
    task = cede.Task(env_cost=np.zeros((20, 2)), agents=["a", "b"], horizon=3, state_names=BINS.state_names)
    learner = cede.recommended(task)
    learner.observe(0, BINS({"angle": 0.1, "speed": 3.0}), 0, learner.choose(0, BINS([0.1, 3.0]), 0), 1, BINS([0.2, 3.5]))
    learner.end_episode()
    assert cede.gym.uniform_bins is cede.encode.uniform_bins
    assert cede.gym.Bins is Bins


# ------------------------------------------------------------------------------------------------- traces and data frames


def test_counters_and_flags_of_a_trace():
    trace = Product([Counter("failed tool calls", most=2), Flag("open"), Categories({"kind": ["code", None]})])
    assert trace.state_names[:4] == [
        f"failed tool calls=0, open={flag}, kind={kind}" for flag in ("no", "yes") for kind in ("code", "other")
    ]
    for failed, is_open, kind in itertools.product(range(5), (False, True), ("code", "mail", None)):
        expected = (min(failed, 2) * 2 + is_open) * 2 + (kind != "code")
        named = {"failed tool calls": failed, "open": is_open, "kind": kind}
        assert trace(named) == trace([failed, np.bool_(is_open), kind]) == trace.states([named])[0] == expected
    both = Counter(["tries", "turns"], most=[1, 3])
    assert both.states([[0, 9], [5, 2]]).tolist() == [3, 4 + 2]
    assert (both.n_states, both.state_names[-1]) == (8, "tries=1+, turns=3+")
    assert Flag(["a", "b"])([1, 0]) == 2
    assert Counter("n", 2).description == "n: 0; 1; 2+"
    for encoder, wrong, text in (
        (Counter("failed"), -1, "encode: failed is -1.0, must be a count: a whole number of at least 0"),
        (Counter("failed"), 0.5, "encode: failed is 0.5, must be a count: a whole number of at least 0"),
        (Flag("open"), 2, "encode: open is 2.0, must be True or False, or 1 or 0"),
        (Flag("open"), {"open": "yes"}, "encode: open is 'yes', must be a number"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            encoder(wrong)
    for make in (
        lambda: Counter([]),
        lambda: Flag(["a", "a"]),
        lambda: Counter("a", 0),
        lambda: Counter("a", [1, 2]),
        lambda: Flag(3),
    ):
        with pytest.raises(ValueError, match=r"^(Counter|Flag): "):
            make()


FRAME = {
    "at": np.arange("2024-01-01", "2024-04-10", dtype="datetime64[D]"),  # 100 rows
    "id": np.arange(100) * 7,
    "load": np.arange(100)[::-1] / 10,
    "failed": [0] * 60 + [1] * 25 + [2] * 10 + [9] * 5,
    "open": [True, False] * 50,
    "paid": [1, 0, 0, 0] * 25,
    "kind": ["repair"] * 50 + ["question"] * 47 + ["x", "y", ""],
    "site": ["A", "B"] * 49 + [None, "A"],
    "same": [3] * 100,
    "text": [f"text {i}" for i in range(100)],
    "hour": [8, 9, 10, 11, 20] * 20,
}


def test_a_data_frame_gets_an_encoder_for_each_column_and_says_which():
    encoder = cede.encode.from_frame(FRAME, bins=4, most_states=10_000, name="desk")
    assert encoder.description.splitlines() == [
        "at: left out: values are of type datetime64, neither numbers nor names",
        "id: left out: another whole number in each row",
        "load: 4 bins of about equally many rows: below 2.45, 2.45 to 4.95, 4.95 to 7.45, from 7.45",
        "failed: a count: 0, 1, 2, 3+ (at most 9 in 100 rows)",
        "open: yes or no",
        "paid: yes or no (1 or 0)",
        "kind: 3 names: question, repair, other (2 further names, 3 rows)",
        "site: 3 names: A, B, other (missing in 1 row)",
        "same: left out: always 3",
        "text: left out: 100 different names in 100 rows",
        "hour: 4 bins of about equally many rows: below 8.5, 8.5 to 9.5, 9.5 to 15.5, from 15.5",
        "together: 2,304 states",
    ]
    assert encoder.inputs == ("load", "failed", "open", "paid", "kind", "site", "hour")
    assert encoder({"load": 3, "failed": 7, "open": True, "paid": 0, "kind": "new", "site": "B", "hour": 9}) == (
        np.ravel_multi_index((1, 3, 1, 0, 2, 1, 1), (4, 4, 2, 2, 3, 3, 4))
    )
    small = cede.encode.from_frame(FRAME, most_states=300)
    assert small.n_states <= 300
    assert small.description.splitlines()[-2] == "2 bins instead of 4, so that there are at most 300 states"


def test_every_form_of_a_data_frame(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    encoder = cede.encode.from_frame(FRAME, name="desk")
    used = {name: FRAME[name] for name in encoder.inputs}
    frame = pandas.DataFrame(FRAME)

    class Polars:  # columns by name, each a sequence
        columns = tuple(FRAME)

        def __getitem__(self, name):
            return FRAME[name]

    for form in (frame, frame.convert_dtypes(), arrow.table(used), Polars()):
        again = cede.encode.from_frame(form, encoder.inputs, name="desk")
        assert again.digest == cede.encode.from_frame(used, name="desk").digest
        np.testing.assert_array_equal(encoder.states(form), encoder.states(used))
    loaded = cede.load(encoder.save(tmp_path / "desk.cede"))
    assert (loaded.description, loaded.digest) == (encoder.description, encoder.digest)
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "desk.cede")])
    assert "kind: 3 names: question, repair, other" in shown.output


def test_frames_that_cannot_be_encoded_are_refused():
    for frame, options, text in (
        (3, {}, "frame is 3, must be a data frame"),
        ({}, {}, "frame is empty, must be at least one column"),
        ({"a": [1.0, np.nan]}, {}, "the column 'a' is missing in 1 of 2 rows, must be there in each row: fill it"),
        ({"a": [1.0, np.inf]}, {}, "the column 'a' is infinite in some rows, must be finite"),
        ({"a": ["x", "x"]}, {}, "the number of columns that can be used is 0, must be at least 1 (a: left out: always 'x')"),
        ({1: [1, 2]}, {}, "the name of a column is 1, must be a non-empty string"),
        (FRAME, {"columns": ["lod"]}, "a name in columns is 'lod', must be one of"),
        (FRAME, {"columns": "load"}, "columns is 'load', must be a sequence"),
        (FRAME, {"most_states": 9}, "the number of states with 2 bins is"),
        (FRAME, {"bins": 1}, "bins is 1, must be an integer of at least 2"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"from_frame: {text}")):
            cede.encode.from_frame(frame, **options)
