"""Learners and fleets in files: everything comes back and goes on bit for bit; what is not as it was written is refused."""

import copy
import hashlib
import io
import json
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import cede
from cede._base import archive as files
from cede.fleet import checkpoint
from cede.fleet.grouping import RUN_FIELDS
from cede.fleet.history import Ledger
from cede.insight.starts import starts_of
from cede.learners.files import SCHEMA
from cede.learners.promises import TrialEpisodes
from cede.learners.reading import ALGORITHMS, CLASSES, unpack_learner
from cede.learners.session import Content
from cede.learners.state import LearnerState, Sizes
from problems import play, random_structured

MDP = random_structured(7)
WAYS = {
    "printed": lambda: cede.ucrl2_mc(MDP.task, delta=0.03, seed=4),
    "structured": lambda: cede.ucrl2_mc(MDP.task, structure=MDP.structure, seed=4),
    "actions mean different things": lambda: cede.ucrl2_mc(
        random_structured(7, labels=False).task, structure=random_structured(7, labels=False).structure
    ),
    "bernstein": lambda: cede.ucrl2_mc(MDP.task, belief={"agents": "bernstein", "environment": "printed"}, scale=0.3),
    "greedy planning": lambda: cede.ucrl2_mc(MDP.task, planning="greedy", scale=0.1, seed=4),
    "doubling": lambda: cede.ucrl2_mc(MDP.task, replan="doubling", scale=0.1, seed=4),
    "every third": lambda: cede.ucrl2_mc(MDP.task, replan=3, scale=0.1, seed=4),
    "schedule": lambda: cede.ucrl2_mc(MDP.task, scale=cede.Scale.authors(40), seed=4),
    "forgetting": lambda: cede.ucrl2_mc(MDP.task, forget=cede.Window(5), forget_environment=cede.HalfLife(3.5), seed=4),
    "sampling": lambda: cede.posterior_sampling(MDP.task, prior=2.5, seed=4),
    "known": lambda: cede.greedy(MDP.task, known_agents=known(), known_environment=MDP.environment),
    "ucrl2": lambda: cede.ucrl2(MDP.task, scale=0.1, seed=4),
    "fixed": lambda: cede.fixed(MDP.task, 0),
    "oracle": lambda: cede.oracle(MDP),
}


def known():
    return {agent.name: agent.policy for agent in MDP.team.agents[:1]}


def same(one, two):
    assert one.about == two.about
    assert one.episode == two.episode
    assert one.observed == two.observed
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(one.counts, layer).toarray(), getattr(two.counts, layer).toarray())
    np.testing.assert_array_equal(one.plan.policy, two.plan.policy)
    np.testing.assert_array_equal(one.plan.value, two.plan.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("episodes", [0, 13])
def test_a_learner_goes_on_bit_for_bit(way, episodes, tmp_path):
    mdp = MDP if way != "actions mean different things" else random_structured(7, labels=False)
    learner = WAYS[way]()
    if episodes:
        cede.simulate(mdp, learner, episodes, seed=3, progress=False)
    twin = copy.deepcopy(learner)
    learner.save(tmp_path / "one.cede")
    loaded = cede.load(tmp_path / "one.cede")
    same(loaded, twin)
    histories = [cede.simulate(mdp, one, 12, seed=8, progress=False) for one in (loaded, twin)]
    np.testing.assert_array_equal(histories[0].expected_cost, histories[1].expected_cost)
    same(loaded, twin)


def test_in_the_middle_of_an_episode(tmp_path):
    learner = cede.ucrl2_mc(MDP.task, seed=4)
    episode = play(MDP, 1, 0)[0]
    learner.observe(
        0, *(int(x[0]) for x in (episode.states, episode.prev_agents, episode.agents, episode.actions)), episode.states[1]
    )
    learner.save(tmp_path / "one.cede")
    loaded = cede.load(tmp_path / "one.cede")
    assert loaded.observed == 1
    whole = cede.ucrl2_mc(MDP.task, seed=4)
    whole.observe_episode(episode)
    whole.save(tmp_path / "two.cede")
    again = cede.load(tmp_path / "two.cede")
    again.end_episode()
    whole.end_episode()
    same(again, whole)


@pytest.mark.parametrize("structured", [False, True])
def test_a_fleet_goes_on_bit_for_bit(structured, tmp_path):
    mdps = cede.worlds.riverswim_teams(5, seed=4)
    structure = mdps[0].structure if structured else None

    def make():
        learners = [cede.ucrl2_mc(m.task, structure=structure, seed=i) for i, m in enumerate(mdps[:3])]
        return cede.Fleet([*learners, cede.ucrl2(mdps[3].task), cede.ucrl2_mc(mdps[4].task, structure=structure, replan=4)])

    fleet, twin = make(), make()
    for one in (fleet, twin):
        cede.simulate_fleet(mdps, one, 11, seed=6, progress=False)
    fleet.save(tmp_path / "fleet.cede")
    loaded = cede.load(tmp_path / "fleet.cede")
    assert isinstance(loaded, cede.Fleet)
    assert (loaded.environment != twin.environment).nnz == 0
    for one, two in zip(loaded, twin, strict=True):
        same(one, two)
    later = [cede.simulate_fleet(mdps, one, 9, seed=7, progress=False) for one in (loaded, twin)]
    np.testing.assert_array_equal(later[0].expected_cost, later[1].expected_cost)
    newcomers = [one.welcome(mdps[0].task) for one in (loaded, twin)]
    same(*newcomers)


def test_a_large_fleet_is_written_once(tmp_path):
    """What learners have in common is not repeated."""
    mdp = cede.worlds.lane_driving()
    known_machine = {"machine": mdp.team.agents[0].policy}
    sizes = []
    for n in (1, 40):
        fleet = cede.Fleet([cede.ucrl2_mc(mdp.task, known_agents=known_machine, seed=i) for i in range(n)])
        fleet.save(tmp_path / f"{n}.cede")
        sizes.append((tmp_path / f"{n}.cede").stat().st_size)
        assert len(cede.load(tmp_path / f"{n}.cede")) == n
    assert sizes[1] < 1.2 * sizes[0]


def test_an_empty_fleet(tmp_path):
    mdp = cede.worlds.riverswim()
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task)])
    cede.simulate_fleet([mdp], fleet, 5, progress=False)
    fleet.remove(0)
    fleet.save(tmp_path / "empty.cede")
    loaded = cede.load(tmp_path / "empty.cede")
    assert len(loaded) == 0
    assert loaded.environment.sum() == 100


def test_what_cannot_be_saved_says_so(tmp_path):
    task = cede.worlds.riverswim().task
    with pytest.raises(ValueError, match=r"save: a scale of the learner is .*, must be a number or a StepDown"):
        cede.ucrl2_mc(task, scale=lambda episode: 1 / episode).save(tmp_path / "x.cede")
    fleet = cede.Fleet([cede.ucrl2_mc(task)])
    with pytest.raises(ValueError, match=r"save: learner is in a fleet, .* must be a learner that belongs to none: save the fleet"):
        fleet.learners[0].save(tmp_path / "x.cede")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="nowhere"):
        cede.ucrl2_mc(task).save(tmp_path / "nowhere" / "x.cede")
    with pytest.raises(FileNotFoundError):
        cede.load(tmp_path / "missing.cede")


# ------------------------------------------------------------------------------------- what is not as it was written


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A learner with something of everything, as bytes."""
    path = tmp_path_factory.mktemp("saved") / "one.cede"
    mdp = random_structured(7, labels=False)
    ways = {"structure": mdp.structure, "forget": {"agent 0": cede.Window(3)}, "replan": 2}
    learner = cede.ucrl2_mc(mdp.task, **ways)
    cede.simulate(mdp, learner, 6, progress=False)
    learner.save(path)
    return path.read_bytes()


def refused(path, data):
    path.write_bytes(data)
    with pytest.raises(cede.UnreadableFile, match=path.name):
        cede.load(path)


def test_truncated_anywhere(saved, tmp_path):
    for end in (0, 1, 30, len(saved) // 3, len(saved) // 2, len(saved) - 100, len(saved) - 1):
        refused(tmp_path / "cut.cede", saved[:end])


def test_flipped_bits(saved, tmp_path):
    """Any bit, anywhere: it is refused, or was one that means nothing (dates of the archive) and all is as it was."""
    rng = np.random.default_rng(0)
    expected = cede.load(write(tmp_path / "good.cede", saved))
    found = 0
    for place in rng.integers(len(saved), size=150):
        data = bytearray(saved)
        data[place] ^= 1 << int(rng.integers(8))
        try:
            same(cede.load(write(tmp_path / "flipped.cede", bytes(data))), expected)
        except cede.UnreadableFile:
            found += 1
    assert found > 100


def write(path, data):
    path.write_bytes(data)
    return path


def test_foreign_files(tmp_path):
    refused(tmp_path / "text.cede", b"not a file of ours")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hello.txt", "hello")
    refused(tmp_path / "zip.cede", buffer.getvalue())
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(3))
    refused(tmp_path / "npz.cede", buffer.getvalue())
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([{"kind": "learner"}], dtype=object))
    refused(tmp_path / "pickle.cede", buffer.getvalue())
    mdp = cede.worlds.riverswim()
    cede.simulate_fleet([mdp], cede.Fleet([cede.ucrl2_mc(mdp.task)]), 2, progress=False, checkpoint=tmp_path / "run.npz")
    with pytest.raises(cede.UnreadableFile, match=r"run.npz: is a checkpoint of schema 8, must be a learner or fleet of schema 8"):
        cede.load(tmp_path / "run.npz")


def test_a_newer_version(saved, tmp_path):
    path = write(tmp_path / "one.cede", saved)
    header, arrays = files.load_arrays(path, "learner", SCHEMA)
    kind = {name: value for name, value in header.items() if name not in ("kind", "schema")}
    files.save_arrays(path, "learner", SCHEMA + 1, kind, arrays)
    with pytest.raises(cede.UnreadableFile, match="is a learner of schema 9, must be at most 8: it is of a newer cede"):
        cede.load(path)


def test_arrays_that_claim_terabytes(tmp_path):
    """The header of one array, and the directory of the archive, say more than there is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        forged = io.BytesIO()
        np.lib.format.write_array_header_1_0(forged, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
        archive.writestr("header.npy", forged.getvalue() + bytes(8))
    refused(tmp_path / "shape.cede", buffer.getvalue())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(10**7))  # a small file that unpacks to a large one
    refused(tmp_path / "bomb.cede", buffer.getvalue())


def forge(saved, tmp_path, change):
    """A file with a right checksum and wrong contents."""
    path = write(tmp_path / "forged.cede", saved)
    header, arrays = files.load_arrays(path, "learner", SCHEMA)
    change(header, arrays)
    about = {name: value for name, value in header.items() if name not in ("kind", "schema")}
    files.save_arrays(path, "learner", SCHEMA, about, arrays)
    with pytest.raises(cede.UnreadableFile, match=r"forged.cede: cannot be read, must be a learner of cede; it is damaged"):
        cede.load(path)


def put(name, make):
    return lambda header, arrays: arrays.update({name: make(arrays[name])})


def of_layer(name, part, make):
    """Change the keys or numbers of all layers whose names begin like this."""

    def forged(header, arrays):
        for i, layer in enumerate(header["state"]["layers"]):
            if layer.startswith(name) and arrays[f"state/counts/{i}/{part}"].size:
                arrays[f"state/counts/{i}/{part}"] = make(arrays[f"state/counts/{i}/{part}"])

    return forged


FORGERIES = {
    "horizon": lambda header, arrays: header["task"].update(horizon=10**15),
    "no horizon": lambda header, arrays: header["task"].pop("horizon"),
    "text for a number": lambda header, arrays: header["state"].update(episodes="many"),
    "negative episodes": lambda header, arrays: header["state"].update(episodes=-1),
    "seed": lambda header, arrays: header.update(seed=2**40),
    "unknown radius": lambda header, arrays: header["told"]["belief"].update(environment="wide"),
    "delta": lambda header, arrays: header["told"].update(delta=3.0),
    "rule": lambda header, arrays: header["told"]["forgetting"].update(
        agents={"map": [["agent 0", {"class": "Eternity", "episodes": 3}]]}
    ),
    "an agent nobody knows": lambda header, arrays: header["told"]["forgetting"].update(
        agents={"map": [["eve", {"class": "Window", "episodes": 3}]]}
    ),
    "another window": lambda header, arrays: header["told"]["forgetting"].update(
        agents={"map": [["agent 0", {"class": "Window", "episodes": 4}]]}
    ),
    "replan": lambda header, arrays: header["told"]["plans"].update(replan=-3),
    "stale": lambda header, arrays: header["state"].update(stale="perhaps"),
    "place beyond the table": of_layer("environment", "key", lambda a: a + 10**6),
    "places in disorder": of_layer("agent/", "key", lambda a: a[::-1].copy()),
    "outcome of no case": of_layer("environment", "key", lambda a: np.arange(len(a))),
    "negative counts": of_layer("agent/", "number", lambda a: -a),
    "counts that are no numbers": of_layer("agent/", "number", lambda a: a * np.nan),
    "numbers of another kind": of_layer("agent/", "number", lambda a: a.astype(np.float32)),
    "fewer numbers": of_layer("agent/", "number", lambda a: a[:-1]),
    "agents that do not exist": put("state/policy", lambda a: a + 9),
    "another shape": put("state/policy", lambda a: a[:-1]),
    "value": put("state/value", lambda a: a[:, :-1].copy()),
    "steps beyond the table": put("state/agents_recent", lambda a: a + 10**6),
    "rows of the structure": put("told/knowledge/structure/environment/row", lambda a: a + 100),
    "costs": put("task/env_cost", lambda a: a * np.inf),
    "a running step": put("running/steps", lambda a: np.array([[0, 99, 0, 0, 0, 0]])),
    "nothing at all": lambda header, arrays: arrays.clear(),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged(saved, tmp_path, name):
    forge(saved, tmp_path, FORGERIES[name])


def test_fuzz_of_the_header(saved, tmp_path):
    """Values of the header replaced by others at random: refused, or a learner that works."""
    rng = np.random.default_rng(1)
    path = write(tmp_path / "fuzz.cede", saved)
    header, arrays = files.load_arrays(path, "learner", SCHEMA)
    junk = [None, -1, 0, 1, 2**70, 1e300, "x", [], {}, True, [1, 2], {"class": "Window", "episodes": 1}]
    for _ in range(150):
        forged = json.loads(json.dumps({name: value for name, value in header.items() if name not in ("kind", "schema")}))
        inner = forged[rng.choice(["task", "told", "state"])] if rng.random() < 0.7 else forged
        inner[rng.choice(sorted(inner))] = junk[rng.integers(len(junk))]
        files.save_arrays(path, "learner", SCHEMA, forged, arrays)
        try:
            learner = cede.load(path)
        except cede.UnreadableFile:
            continue
        assert np.isfinite(learner.plan.value).all()


def test_nothing_is_lost_when_writing_fails(tmp_path, monkeypatch):
    learner = cede.ucrl2_mc(MDP.task)
    path = tmp_path / "one.cede"
    learner.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    cede.simulate(MDP, learner, 3, progress=False)
    with pytest.raises(OSError, match="No space left"):
        learner.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["one.cede"]


def test_packing_alone():
    """The same without a disk."""
    learner = WAYS["structured"]()
    cede.simulate(MDP, learner, 9, seed=3, progress=False)
    header, arrays = learner.packed()
    same(unpack_learner(json.loads(json.dumps(header)), arrays), copy.deepcopy(learner))


# ------------------------------------------------------------------------------------- formats that a release fixed

GOLDEN = Path(__file__).parent.parent / "golden"

# The digest of all fields that files hold, by schema. A change of the format is a new schema: raise the number, add its digest.
FORMATS = {
    2: "e1b1c0087b7c57d1",
    3: "753ff184b5546fe2",
    4: "be621aed4c9436b6",
    5: "c8ec19a0409d1da9",
    6: "93e68d5eb495c468",
    7: "6a4bcdc41da61bac",
    8: "4de46dabf6402dfc",
}


def featured(task):
    return cede.posterior_sampling(task, features=np.arange(task.n_states)).settings


OPEN = ["approved", "awaited", "begun", "most", "open", "seconds"]  # and of its open sessions
LEARNER = ["task", "settings", "seed", "state", "steps", "charged", "sessions", "recorded", "changes"]  # what a file has of one


def format_digest():
    """What is written: the fields of every class that is described, of the state, and the extras."""
    classes = CLASSES | {cls.__name__: cls for cls in ALGORITHMS}
    described = {name: [field.name for field in fields(cls)] for name, cls in sorted(classes.items())}
    kept = [(field.name, str(field.metadata.get("dtype", ""))) for field in fields(LearnerState)]
    running = [list(RUN_FIELDS), [field.name for field in fields(Ledger)], LEARNER, Content._fields, OPEN]
    extras = [(one.name, one.dtype.__name__) for one in Sizes(MDP.task, featured(MDP.task)).extras]
    return hashlib.sha256(json.dumps([described, kept, running, extras]).encode()).hexdigest()[:16]


def test_the_schema_rises_whenever_the_format_does():
    assert SCHEMA == checkpoint.SCHEMA == max(FORMATS)
    assert format_digest() == FORMATS[SCHEMA], "the format has changed: raise SCHEMA, and add this digest to FORMATS"


@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("kind", ["learner", "fleet"])
def test_files_of_an_older_schema_are_refused_with_the_right_word(kind, schema):
    with pytest.raises(cede.UnreadableFile, match=rf"is a {kind} of schema {schema}, must be 8: it is of an older cede"):
        cede.load(GOLDEN / f"{kind}-schema-{schema}.cede")


def test_a_checkpoint_of_an_older_schema_is_refused_with_the_right_word():
    mdps = cede.worlds.riverswim_teams(1)
    fleet = cede.Fleet([cede.ucrl2_mc(mdps[0].task)])
    old = cede.Checkpoint(GOLDEN / "checkpoint-schema-1.cede", resume=True)
    with pytest.raises(cede.UnreadableFile, match="is a checkpoint of schema 1, must be 8: it is of an older cede"):
        cede.simulate_fleet(mdps, fleet, 3, checkpoint=old, progress=False)


def again_with_features():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    again = cede.posterior_sampling(mdp.task, features=True, seed=5)
    cede.simulate(mdp, again, 30, seed=5, progress=False)
    return again


def same_extras(one, other):
    assert one.state.extras.keys() == other.state.extras.keys()
    for name, array in one.state.extras.items():
        np.testing.assert_allclose(array, other.state.extras[name], rtol=1e-3, atol=1e-6)  # of libraries


def test_files_of_this_schema_are_read():
    """Written once, when the schema was fixed: whoever changes how they are read sees it here."""
    learner, again = cede.load(GOLDEN / "learner-schema-7.cede"), again_with_features()
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
    np.testing.assert_array_equal(again.counts.starts, learner.counts.starts)
    assert len(learner.state.extras) == 12
    same_extras(learner, again)


def test_files_of_schema_6_are_read():
    learner = cede.load(GOLDEN / "learner-schema-6.cede")
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    again = cede.recommended(mdp.task, seed=5)
    cede.simulate(mdp, again, 30, seed=5, progress=False)
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
    np.testing.assert_array_equal(again.counts.starts, learner.counts.starts)
    assert learner.counts.starts.sum() == 30
    mdps = [mdp] * 2
    fleet, twin = (
        cede.load(GOLDEN / "fleet-schema-6.cede"),
        cede.Fleet([cede.posterior_sampling(mdp.task, features=True, seed=i) for i in range(2)]),
    )
    cede.simulate_fleet(mdps, twin, 20, seed=5, progress=False)
    shared = fleet.shared_environment.extras, twin.shared_environment.extras
    assert shared[0]["environment/episodes"] == 36
    assert len(shared[0]) == len(shared[1]) == 6
    for name, array in shared[0].items():
        np.testing.assert_allclose(array, shared[1][name], rtol=1e-3, atol=1e-6)
    for one, other in zip(fleet, twin, strict=True):
        same_extras(one, other)


def test_files_of_schema_5_are_read():
    """They know nothing of starts: what the counts say about them is all that an estimate has. Extras have other names there."""
    learner, again = cede.load(GOLDEN / "learner-schema-5.cede"), again_with_features()
    assert not learner.counts.starts.any()
    assert starts_of("test", learner).source.startswith("not counted: ")
    assert (learner.episode, learner.settings.features.names) == (31, ("s",))
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
    same_extras(learner, again)


def test_files_of_schema_4_are_read():
    """They know nothing of features."""
    learner = cede.load(GOLDEN / "learner-schema-4.cede")
    assert learner.settings.features is None
    assert (learner.episode, str(learner.settings.belief), learner.settings.trials) == (31, "calibrated", TrialEpisodes())
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    again = cede.recommended(mdp.task, seed=5)
    cede.simulate(mdp, again, 30, seed=5, progress=False)
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)


def test_files_of_schema_3_are_read():
    """What they lack has a default: they know nothing of trial episodes."""
    learner, fleet = cede.load(GOLDEN / "learner-schema-3.cede"), cede.load(GOLDEN / "fleet-schema-3.cede")
    assert not learner.settings.trials
    assert learner.episode == 41
    assert learner.observed == 1
    assert learner.about["at_most"] == {"p=0.7": 0.5}
    assert len(fleet) == 3
    assert fleet.environment_episodes == 60
    for one in (learner, *fleet):
        assert np.isfinite(one.plan.value).any() or one.settings.baseline is not None
    endless = cede.load(GOLDEN / "endless-schema-3.cede")
    assert (endless.task.horizon, endless.steps, endless.plan.policy.shape) == (None, 500, (6, 2))
    assert learner.counts.costs.shape == (12, 4)
    again = cede.load((GOLDEN / "learner-schema-3.cede").read_bytes())  # from bytes, as from a file
    np.testing.assert_array_equal(again.plan.policy, learner.plan.policy)
