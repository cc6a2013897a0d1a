"""When a record waits for the disk: after every step, after every episode, or only at the end; and its directory, if it is new."""

import os
from pathlib import Path

import pytest

import cede

MDP = cede.worlds.riverswim([0.3, 0.7])


@pytest.fixture
def synced(monkeypatch):
    """How often files and directories were synced so far."""
    found, plain = [], os.fsync

    def counted(descriptor):
        found.append("directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        return plain(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize(("sync", "steps", "ends"), [("step", 1, 1), ("episode", 0, 1), ("never", 0, 0)])
def test_when_it_waits(tmp_path, synced, sync, steps, ends):
    learner = cede.ucrl2_mc(MDP.task)
    with learner.record_to(tmp_path / "steps.jsonl", sync=sync):
        assert synced == ["directory"]  # the file is new: its name is on the disk, too
        episode = cede.rollout(MDP, learner.plan, 0)
        for t in range(3):
            synced.clear()
            parts = (episode.states, episode.prev_agents, episode.agents, episode.actions, episode.states[1:])
            learner.observe(t, *(int(part[t]) for part in parts))
            assert synced == ["file"] * steps
        synced.clear()
        learner.end_episode()
        assert synced == ["file"] * ends
        synced.clear()
    assert synced == ["file"]  # it was closed
    synced.clear()
    with learner.record_to(tmp_path / "steps.jsonl", sync=sync):
        assert "directory" not in synced
