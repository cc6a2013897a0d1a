"""Checkpoints: the same bits after any interruption, and the last good state stays readable."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import cede
from cede import files
from cede.checkpoints import Checkpoint
from cede.worlds import riverswim_teams
from test_engines import mixed_fleet, same


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
    with pytest.raises(ValueError, match="is a learner of schema 1, must be a checkpoint of schema 1"):
        go(path, 4, resume=True)
    go(tmp_path / "old.npz", 2)
    header, arrays = files.load_arrays(tmp_path / "old.npz", "checkpoint", 1)
    files.save_arrays(tmp_path / "old.npz", "checkpoint", 1, {**header, "cede": "0.0.1"}, arrays)
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
    assert files.load_arrays(path, "checkpoint", 1)[0]["done"] == 3
    same(go(path, resume=True, jobs=1), whole)


def test_a_place_that_cannot_be_written_is_found_out_before_anything_runs():
    mdps = riverswim_teams(2)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task) for m in mdps])
    with pytest.raises(OSError, match=r"run.npz: could not be written \(No such file or directory\); there is no checkpoint"):
        cede.simulate_fleet(mdps, fleet, 3, checkpoint="/proc/nowhere/run.npz")
    assert all(learner.episode == 1 for learner in fleet)


def command(out, *more):
    size = ["--teams", "60", "--episodes", "300", "--checkpoint-every", "0.2", "--jobs", "1", "--seed", "3"]
    return [sys.executable, "-m", "cede.cli", "fleet", "riverswim", *size, "--out", str(out), *more]


@pytest.mark.slow
def test_killed_and_resumed_from_the_command_line(tmp_path):
    """kill -9 in the middle, then --resume: the same tables, byte for byte."""
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    process = subprocess.Popen(command(tmp_path / "broken"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path, deadline = tmp_path / "broken" / "checkpoint.npz", time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and files.load_arrays(path, "checkpoint", 1)[0]["done"] > 0:
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < files.load_arrays(path, "checkpoint", 1)[0]["done"] < 300
    assert not (tmp_path / "broken" / "curve.csv").exists()
    refused = subprocess.run(command(tmp_path / "broken"), check=False, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "holds a run already: --resume it, or choose another directory" in refused.stderr
    subprocess.run(command(tmp_path / "broken", "--resume"), check=True, capture_output=True)
    for name in ("curve.csv", "teams.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
