"""Checkpoints: the same bits after any interruption, and the last good state stays readable."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import cede
from cede._base import archive as files
from cede.fleet.checkpoint import SCHEMA, Checkpoint
from cede.worlds.riverswim import riverswim_teams
from fleet.test_engines import every_round, forked_workers, mixed_fleet, same

__all__ = ["every_round", "forked_workers"]  # fixtures that are used by all tests here


class Stop(Exception):
    pass


def stop_at(episode):
    def progress(done):
        if done >= episode:
            raise Stop

    return progress


def go(path, episodes=14, *, resume=False, progress=False, seconds=0.0, **options):
    mdps, fleet = mixed_fleet()
    checkpoint = Checkpoint(path, seconds=seconds, resume=resume)
    return cede.simulate_fleet(mdps, fleet, episodes, seed=5, checkpoint=checkpoint, progress=progress, **options), fleet


@pytest.fixture(scope="module")
def whole():
    mdps, fleet = mixed_fleet()
    return cede.simulate_fleet(mdps, fleet, 14, seed=5, jobs=1, progress=False), fleet


@pytest.mark.parametrize("episode", [1, 6, 13])
def test_a_resumed_run_gives_the_same_bits(tmp_path, whole, episode):
    """Stopped anywhere, resumed with another number of threads: as if nothing had happened."""
    path = tmp_path / "run.npz"
    with pytest.raises(Stop):
        go(path, jobs=2, progress=stop_at(episode))
    same(go(path, resume=True, jobs=3), whole)
    same(go(path, resume=True, jobs=1), whole)  # finished: only told again


def test_a_resumed_run_may_change_its_engine_and_its_length(tmp_path, whole):
    path = tmp_path / "run.npz"
    go(path, 5, engine="processes", jobs=2)
    same(go(path, resume=True, jobs=1), whole)


def test_another_run_is_not_resumed_and_not_overwritten(tmp_path):
    path = tmp_path / "run.npz"
    go(path, 3, jobs=1)
    before = path.read_bytes()
    mdps, fleet = mixed_fleet()
    for options, message in (
        ({"seed": 6}, "is of another run"),
        ({"seed": 5, "sync_every": 2}, "is of another run"),
        ({"seed": 5, "evaluate_every": 2}, "is of another run"),
    ):
        with pytest.raises(ValueError, match=message):
            cede.simulate_fleet(mdps, fleet, 9, checkpoint=Checkpoint(path, resume=True), progress=False, **options)
    with pytest.raises(ValueError, match=r"run.npz: is there already; resume it, or choose another file"):
        cede.simulate_fleet(mdps, fleet, 9, seed=5, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="holds 3 episodes, must be at most 2"):
        go(path, 2, resume=True)
    assert path.read_bytes() == before
    assert all(learner.episode == 1 for learner in fleet)


def test_rounds_of_several_episodes_go_on_only_between_rounds(tmp_path):
    path = tmp_path / "run.npz"
    go(path, 7, sync_every=3)
    with pytest.raises(ValueError, match="the number of episodes done is 7, must be a multiple of sync_every = 3"):
        go(path, 9, sync_every=3, resume=True)
    with pytest.raises(Stop):
        go(tmp_path / "other.npz", 9, sync_every=3, progress=stop_at(5))
    one = go(tmp_path / "other.npz", 9, sync_every=3, resume=True)
    same(one, go(tmp_path / "third.npz", 9, sync_every=3))


HARMS = [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"PK\x03\x04 nonsense", lambda b: b[:500] + b"x" * 40 + b[540:]]


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_is_told_so(tmp_path, harm):
    path = tmp_path / "run.npz"
    go(path, 2, jobs=1)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(ValueError, match=r"run.npz: cannot be read, must be a checkpoint of cede; it is another file, or damaged"):
        go(path, 4, resume=True)


def test_nothing_that_is_read_is_unpickled(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, header=np.array([{"kind": "checkpoint"}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read, must be a checkpoint"):
        go(path, 4, resume=True)


def test_a_file_of_another_kind_or_version_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    files.save_arrays(path, "learner", 1, {}, {})
    with pytest.raises(ValueError, match="is a learner of schema 1, must be a checkpoint of schema 8"):
        go(path, 4, resume=True)
    go(tmp_path / "old.npz", 2)
    header, arrays = files.load_arrays(tmp_path / "old.npz", "checkpoint", SCHEMA)
    files.save_arrays(tmp_path / "old.npz", "checkpoint", SCHEMA, {**header, "cede": "0.0.1"}, arrays)
    with pytest.raises(ValueError, match=r"was written by cede 0.0.1, must be"):
        go(tmp_path / "old.npz", 4, resume=True)


def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(tmp_path, whole, monkeypatch):
    path = tmp_path / "run.npz"
    savez, calls = np.savez, []

    def full(file, **arrays):
        calls.append(file)
        if len(calls) == 5:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        savez(file, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(files.np, "savez", full)
        with pytest.raises(OSError, match=r"could not be written \(No space left on device\); the last checkpoint is as it was"):
            go(path, jobs=1)
    assert list(tmp_path.iterdir()) == [path]
    assert files.load_arrays(path, "checkpoint", SCHEMA)[0]["done"] == 3
    same(go(path, resume=True, jobs=1), whole)


def test_a_place_that_cannot_be_written_is_found_out_before_anything_runs():
    mdps = riverswim_teams(2)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    with pytest.raises(OSError, match=r"run.npz: could not be written \(No such file or directory\); there is no checkpoint"):
        cede.simulate_fleet(mdps, fleet, 3, checkpoint="/proc/nowhere/run.npz")
    assert all(learner.episode == 1 for learner in fleet)


ROOT = Path(__file__).parents[2]  # of the repository, where studies run


def command(out, *more):
    size = ["--teams", "60", "--episodes", "500", "--checkpoint-every", "0.2", "--jobs", "1", "--seed", "3"]
    return [sys.executable, "-m", "studies", "fleet", "riverswim", *size, "--out", str(out), *more]


@pytest.mark.slow
def test_killed_and_resumed_from_the_command_line(tmp_path):
    """kill -9 in the middle, then --resume: the same tables, byte for byte."""
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, cwd=ROOT)
    process = subprocess.Popen(command(tmp_path / "broken"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    path, deadline = tmp_path / "broken" / "checkpoint.npz", time.monotonic() + 600
    while time.monotonic() < deadline:
        if path.exists() and files.load_arrays(path, "checkpoint", SCHEMA)[0]["done"] > 0:
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < files.load_arrays(path, "checkpoint", SCHEMA)[0]["done"] < 500
    assert not (tmp_path / "broken" / "curve.csv").exists()
    refused = subprocess.run(command(tmp_path / "broken"), check=False, capture_output=True, text=True, cwd=ROOT)
    assert refused.returncode == 2
    assert "holds a run already: --resume it, or choose another directory" in refused.stderr
    subprocess.run(command(tmp_path / "broken", "--resume"), check=True, capture_output=True, cwd=ROOT)
    for name in ("curve.csv", "teams.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def harm_array(name, change):
    return lambda arrays: {**arrays, name: change(arrays[name])}


def drop(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


@pytest.mark.parametrize(
    "change",
    [
        harm_array("groups/0/agents_key", lambda a: a + 10**13),
        harm_array("groups/0/agents_key", lambda a: a[::-1].copy()),
        harm_array("groups/0/agents_key", lambda a: a - 50),
        harm_array("groups/0/agents_size", lambda a: a + 1),
        harm_array("groups/0/agents_number", lambda a: -a),
        harm_array("groups/0/planned", lambda a: a[:-1]),
        harm_array("groups/0/stream", lambda a: a.astype(np.float64)),
        harm_array("groups/1/policy", lambda a: a + 99),
        harm_array("environment/key", lambda a: a + 10**6),
        harm_array("environment/number", lambda a: a[:-1]),
        harm_array("environment/number", lambda a: a * 0),
        harm_array("environment/number", lambda a: a * np.inf),
        harm_array("groups/0/planned", lambda a: a + np.iinfo(np.int64).max),
        harm_array("groups/0/fresh", lambda a: a + 7),
        harm_array("groups/0/judged_cost", lambda a: a * np.nan),
        harm_array("ledger/cost", lambda a: a[:, :1]),
        drop("groups/0/stream"),
        drop("ledger/cost"),
        drop("environment/key"),
    ],
)
def test_arrays_that_kernels_could_not_trust_are_refused(tmp_path, change):
    path = tmp_path / "run.npz"
    go(path, 3, jobs=1)
    header, arrays = files.load_arrays(path, "checkpoint", SCHEMA)
    files.save_arrays(
        path, "checkpoint", SCHEMA, {key: header[key] for key in header if key not in ("kind", "schema")}, change(arrays)
    )
    with pytest.raises(ValueError, match=r"run.npz: cannot be read, must be a checkpoint of cede; it is damaged"):
        go(path, 6, resume=True)


def test_an_interrupt_is_written_down(tmp_path, whole):
    path = tmp_path / "run.npz"
    with pytest.raises(Stop):
        go(path, jobs=1, seconds=1000.0, progress=stop_at(6))
    assert files.load_arrays(path, "checkpoint", SCHEMA)[0]["done"] == 6
    same(go(path, resume=True, jobs=1), whole)


def test_another_known_environment_is_another_run(tmp_path):
    mdps = riverswim_teams(2)
    other = cede.worlds.riverswim(version="strehl-littman").environment

    def start(environment, **options):
        fleet = cede.Fleet([cede.ucrl2_mc(m.task, known_environment=environment) for m in mdps])
        cede.simulate_fleet(mdps, fleet, 3, checkpoint=Checkpoint(tmp_path / "run.npz", **options), progress=False)

    start(mdps[0].environment)
    with pytest.raises(ValueError, match="is of another run"):
        start(other, resume=True)
