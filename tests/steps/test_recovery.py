"""A learner, its file and its record after anything that can happen to them: every episode counts once, and both agree."""

import ctypes
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import cede
from cede.steps.recorder import Recorder

TASKS = {
    "horizon": cede.Task(env_cost=[[0.0, 1.0], [2.0, 3.0]], agents=["a", "b"], horizon=3),
    "no horizon": cede.Task(env_cost=[[0.0, 1.0], [2.0, 3.0]], agents=["a", "b"], horizon=None, discount=0.9),
}


def steps_of(task, rng, n=3):
    """Random steps of an episode: t, or nothing without a horizon; state, prev_agent, agent, action, next_state."""
    state, agent, result = int(rng.integers(2)), int(task.start_agent), []
    for t in range(n):
        prev, agent, action, to = agent, *(int(one) for one in rng.integers(2, size=3))
        result.append((*(() if task.horizon is None else (t,)), state, prev, agent, action, to))
        state = to
    return result


def counts(learner):
    found = learner.counts
    return found.agents.toarray().tolist(), found.environment.toarray().tolist(), found.episodes


def same_as(learner, episodes):
    """Check that a learner has counted these episodes, each once."""
    other = cede.fixed(learner.task, 0)
    for steps in episodes:
        for step in steps:
            other.observe(*step)
        other.end_episode()
    assert counts(learner) == counts(other)


class Life:
    """What happens to a learner, and what it should know then. An episode has a number; `known` are the steps of those counted."""

    def __init__(self, task, folder, seed):
        self.task, self.rng = task, np.random.default_rng(seed)
        self.file, self.path = folder / "learner.cede", folder / "steps.jsonl"
        self.recorded = {}  # every episode that ended in the record
        self.next = 0
        self.fresh()

    def fresh(self):
        """Another learner, that knows nothing, in place of the old one."""
        self.stop()
        self.learner, self.known, self.done = cede.fixed(self.task, 0), {}, set()
        self.running = None  # the number of the episode that runs, and its steps
        self.save()

    def stop(self):
        if getattr(self, "learner", None) is not None and self.learner.recorder is not None:
            self.learner.recorder.close()

    def record(self):
        if self.learner.recorder is None:
            if self.running is not None and self.running[0] in self.recorded:  # it has ended, only its file does not know
                before = self.path.read_bytes()
                with pytest.raises(ValueError, match="the running episode is one that ended in this record, must be dropped first"):
                    self.learner.record_to(self.path)
                assert self.path.read_bytes() == before
                self.drop()
            self.learner.record_to(self.path)

    def observe(self, steps):
        for step in steps:
            self.learner.observe(*step)

    def episode(self):
        number, before = self.running or (self.new(), [])
        steps = steps_of(self.task, self.rng)
        if before:
            steps = [*before, (2, before[-1][-1], before[-1][3], 1, 0, 1)]
        self.observe(steps[len(before) :])
        self.end(number, steps)

    def new(self):
        self.next += 1
        return self.next

    def end(self, number, steps):
        self.learner.end_episode()
        self.known[number], self.running = steps, None
        self.done.add(number)
        if self.learner.recorder is not None:
            self.recorded[number] = steps

    def drop(self):
        if self.running is None and self.task.horizon is not None:
            self.observe(steps_of(self.task, self.rng, 2))
        self.learner.drop_episode()
        self.running = None

    def log(self):
        if self.running is None:
            episodes = {self.new(): steps_of(self.task, self.rng) for _ in range(int(self.rng.integers(1, 4)))}
            columns = {"episode": [number for number in episodes for _ in range(3)]}
            rows = [step[-5:] for steps in episodes.values() for step in steps]
            columns |= dict(zip(("state", "prev_agent", "agent", "action", "next_state"), zip(*rows, strict=True), strict=True))
            assert self.learner.learn_from(columns, progress=False) == len(episodes)
            self.known |= episodes
            self.done |= set(episodes)

    def save(self):
        self.learner.save(self.file)
        self.saved = (dict(self.known), set(self.done), self.running)

    def save_inside(self):
        """In the middle of an episode, which then goes on to its end."""
        if self.running is not None or self.task.horizon is None:
            return
        number, steps = self.new(), steps_of(self.task, self.rng)
        self.observe(steps[:2])
        self.running = (number, steps[:2])
        self.save()
        self.observe(steps[2:])
        self.end(number, steps)

    def crash(self):
        self.stop()
        self.learner = cede.load(self.file)
        self.known, self.done, self.running = dict(self.saved[0]), set(self.saved[1]), self.saved[2]

    def recover(self):
        """As the documents say."""
        if not self.path.exists():
            return
        if self.running is not None:
            self.learner.drop_episode()
            self.running = None
        record = cede.read_record(self.path)
        rest = record.after(self.learner)
        if self.rng.random() < 0.3:
            rest = rest.log()
        elif self.rng.random() < 0.2 and len(rest):
            rest = cede.read_record(rest.save(self.path.with_suffix(".parquet")))
        self.learner.learn_from(rest, progress=False)
        missing = {number: steps for number, steps in self.recorded.items() if number not in self.done}
        self.known |= missing
        self.done |= set(missing)
        self.check()
        again = cede.read_record(self.path)
        assert self.learner.learn_from(again.after(self.learner), progress=False) == 0
        if self.recorded:
            with pytest.raises(ValueError, match="may have counted already"):
                self.learner.learn_from(again)

    def check(self):
        same_as(self.learner, self.known.values())


OPERATIONS = ["record", "episode", "episode", "episode", "drop", "log", "save", "save_inside", "crash", "recover", "stop", "fresh"]
WEIGHTS = np.array([3, 3, 3, 3, 1, 1, 3, 1, 2, 3, 1, 0.3])


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("seed", range(25))
def test_every_episode_counts_once(kind, seed, tmp_path):
    """Random sequences of recording, saving, learning from logs, crashes and recoveries, against the truth."""
    life = Life(TASKS[kind], tmp_path, seed)
    for name in life.rng.choice(OPERATIONS, 40, p=WEIGHTS / WEIGHTS.sum()):
        getattr(life, name)()
        if life.running is None:
            life.check()
    life.crash()
    life.recover()


def test_the_sequence_that_counted_twice(tmp_path):
    """Record, save, learn from a log, episode, crash; load, learn the rest, record, episode, save, crash; recover."""
    task = TASKS["horizon"]
    life = Life(task, tmp_path, 0)
    before = ("record", "episode", "save", "log", "log", "log", "episode", "crash")
    for name in (*before, "recover", "record", "episode", "save", "crash", "recover"):
        getattr(life, name)()
    assert life.learner.episode == 4


def test_files_of_an_earlier_cede_go_by_numbers(tmp_path):
    """A learner of a file without places has counted what has lower numbers."""
    from cede._base.archive import load_arrays, save_arrays
    from cede.learners.files import SCHEMA

    life = Life(TASKS["horizon"], tmp_path, 1)
    for name in ("record", "episode", "episode", "save", "episode"):
        getattr(life, name)()
    header, arrays = load_arrays(life.file, "learner", SCHEMA)
    about = {name: value for name, value in header.items() if name not in ("recorded", "checksum", "kind", "schema")}
    save_arrays(life.file, "learner", 5, about, arrays)
    for name in ("crash", "recover", "record", "episode", "save", "episode", "crash", "recover"):
        getattr(life, name)()


# ------------------------------------------------------------------------------------------------- interrupts


def after(function, error):
    """A function that does its work, and then is interrupted."""

    def work(*args, **kwargs):
        function(*args, **kwargs)
        raise error

    return work


WRITERS = {
    "os.write": lambda patch, error: patch.setattr(os, "write", after(os.write, error)),
    "os.fsync": lambda patch, error: patch.setattr(os, "fsync", after(os.fsync, error)),
    "_write": lambda patch, error: patch.setattr(Recorder, "_write", after(Recorder._write, error)),
    "write_steps": lambda patch, error: patch.setattr(Recorder, "write_steps", after(Recorder.write_steps, error)),
    "end_episode": lambda patch, error: patch.setattr(Recorder, "end_episode", after(Recorder.end_episode, error)),
    "drop_episode": lambda patch, error: patch.setattr(Recorder, "drop_episode", after(Recorder.drop_episode, error)),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")], ids=["interrupt", "full"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", TASKS)
def test_record_and_learner_agree_after_an_interrupt(kind, writer, error, tmp_path, monkeypatch):
    """Whatever was being written: the record holds what the learner has, and both go on."""
    task, path = TASKS[kind], tmp_path / "a.jsonl"
    learner, rng = cede.fixed(task, 0), np.random.default_rng(0)
    learner.record_to(path, sync="step")
    steps = steps_of(task, rng)

    def interrupted(work, *args):
        with monkeypatch.context() as patch:
            WRITERS[writer](patch, error)
            with suppress(KeyboardInterrupt, OSError):
                work(*args)
        record = cede.read_record(path)
        other = cede.fixed(task, 0)
        other.learn_from(record)
        assert counts(other) == counts(learner)
        if task.horizon is not None:
            unfinished = ~record.ended & ~record.dropped
            assert int(unfinished[record.number].sum()) == learner.observed

    for observed, step in enumerate(steps):
        interrupted(learner.observe, *step)
        if (learner.observed if task.horizon is not None else learner.steps) == observed:
            learner.observe(*step)
    interrupted(learner.drop_episode)
    if task.horizon is not None and learner.observed == 0:
        for step in steps:
            learner.observe(*step)
    interrupted(learner.end_episode)
    learner.drop_episode()
    for step in steps_of(task, rng):
        learner.observe(*step)
    learner.end_episode()
    other = cede.fixed(task, 0)
    other.learn_from(cede.read_record(path))
    assert counts(other) == counts(learner)
    assert cede.read_record(path).torn == 0
    assert len(cede.read_record(path).after(learner)) == 0


# ------------------------------------------------------------------------------------------------- what the record tells


@pytest.mark.parametrize("kind", TASKS)
def test_gaps_are_told_wherever_they_are(kind, tmp_path):
    life = Life(TASKS[kind], tmp_path, 3)

    def gaps():
        return cede.read_record(life.path).gaps

    for name in ("record", "episode", "stop", "record", "episode", "stop"):
        getattr(life, name)()
    assert gaps() == 0
    life.episode()  # nobody writes it down
    life.record()
    assert gaps() == 1
    for name in ("drop", "episode", "log", "episode"):
        getattr(life, name)()
    assert gaps() == 2
    life.save()
    life.episode()
    for name in ("crash", "recover", "record", "episode"):
        getattr(life, name)()
    assert gaps() == 2  # nothing new that is not in the record
    life.log()
    life.stop()
    life.record()
    assert gaps() == 3
    life.fresh()
    life.record()
    assert gaps() == 3
    late = tmp_path / "late.jsonl"
    life.stop()
    life.episode()
    life.learner.record_to(late).close()
    assert cede.read_record(late).gaps == 1  # it had learned before it was recorded


def test_a_learner_is_not_saved_over_its_record(tmp_path):
    learner, path = cede.fixed(TASKS["horizon"], 0), tmp_path / "a.jsonl"
    (tmp_path / "link").symlink_to(path)
    recorder = learner.record_to(path)
    for work in (learner.save, cede.Fleet([cede.fixed(TASKS["horizon"], 0)]).save, cede.fixed(TASKS["horizon"], 0).save):
        for where in (path, tmp_path / "link"):
            with pytest.raises(ValueError, match=r"save: path is '.*', must be another file: a record is being written there"):
                work(where)
    with pytest.raises(ValueError, match="a record is being written there"):
        cede.read_record(path).save(path)
    for step in steps_of(learner.task, np.random.default_rng(0)):
        learner.observe(*step)
    learner.end_episode()
    assert len(cede.read_record(path)) == 3
    recorder.close()
    learner.save(path)  # it is free again


@pytest.mark.parametrize("rest", [b"\n", b"\n\n\n", b" \n\t\n", b"\n{torn", b"{torn\n\n", b"\n{torn\n\n"])
def test_blank_lines_at_the_end(rest, tmp_path):
    """Somebody opened the record in an editor."""
    life = Life(TASKS["horizon"], tmp_path, 4)
    life.record()
    life.episode()
    life.stop()
    whole = life.path.read_bytes()
    life.path.write_bytes(whole + rest)
    assert len(cede.read_record(life.path)) == 3
    life.record()
    assert life.path.read_bytes().startswith(whole + b'{"event":"run"')
    life.episode()
    assert len(cede.read_record(life.path)) == 6


def test_a_blank_line_within_a_record_holds_nothing(tmp_path):
    """An earlier cede wrote behind blank lines."""
    life = Life(TASKS["horizon"], tmp_path, 4)
    life.record()
    life.episode()
    lines = life.path.read_bytes().splitlines(keepends=True)
    life.path.write_bytes(b"".join([*lines[:4], b"\n", *lines[4:]]))
    assert len(cede.read_record(life.path)) == 3
    assert cede.read_record(life.path).ended.tolist() == [True]


@pytest.mark.parametrize("where", [0, 1, -1])
def test_nested_lines(where, tmp_path):
    life = Life(TASKS["horizon"], tmp_path, 4)
    life.record()
    life.episode()
    life.stop()
    lines, nested = life.path.read_bytes().splitlines(keepends=True), b'{"a":' * 100_000 + b"0" + b"}" * 100_000 + b"\n"
    if where == 0:
        nested = lines[0][:-2] + b',"x":' + nested[:-1] + b"}\n"
        life.path.write_bytes(nested + b"".join(lines[1:]))
        with pytest.raises(ValueError, match="must be a new file, or a record of cede"):
            life.record()
        with pytest.raises(cede.UnreadableFile, match="must be a record of cede"):
            cede.read_record(life.path)
    elif where == 1:
        life.path.write_bytes(lines[0] + nested + b"".join(lines[1:]))
        with pytest.raises(cede.UnreadableFile, match="line 2 cannot be read"):
            cede.read_record(life.path)
    else:  # as any last line that is damaged
        life.path.write_bytes(b"".join(lines) + nested)
        assert (len(cede.read_record(life.path)), cede.read_record(life.path).torn) == (3, len(nested))
        life.record()
        life.episode()
        assert (len(cede.read_record(life.path)), cede.read_record(life.path).torn) == (6, 0)


@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork], ids=["python", "C, no handler has run yet"])
def test_a_forked_child_does_not_keep_the_lock(tmp_path, fork):
    learner, path = cede.fixed(TASKS["horizon"], 0), tmp_path / "a.jsonl"
    recorder = learner.record_to(path)
    read, write = os.pipe()
    child = fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent lets it go
        os._exit(0)
    try:
        with pytest.raises(ValueError, match="no other recorder writes"):
            cede.fixed(TASKS["horizon"], 0).record_to(path)  # the parent holds the lock all the same
        recorder.close()
        cede.fixed(TASKS["horizon"], 0).record_to(path).close()
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are Unicode there")
def test_a_name_that_is_not_utf_8_is_refused_in_words_that_can_be_printed(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    for work in (cede.fixed(TASKS["horizon"], 0).record_to, cede.read_record):
        with pytest.raises(ValueError, match="must be the path of a file, in UTF-8") as found:
            work(path)
        str(found.value).encode()


def test_what_is_recorded_is_part_of_a_forged_file_that_is_checked(tmp_path):
    from cede._base.archive import load_arrays, save_arrays
    from cede.learners.files import SCHEMA

    life = Life(TASKS["horizon"], tmp_path, 1)
    for name in ("record", "episode", "save"):
        getattr(life, name)()
    header, arrays = load_arrays(life.file, "learner", SCHEMA)
    about = {name: value for name, value in header.items() if name not in ("checksum", "kind", "schema")}
    assert json.loads(json.dumps(about["recorded"])) == about["recorded"]
    (name,) = about["recorded"]["runs"]
    for change in (
        {"runs": {name: [1, [[1, 0]]]}},
        {"runs": {name: [1, [[3, 4], [0, 1]]]}},
        {"runs": {name: [-1, [[0, 1]]]}},
        {"runs": {name: 7}},
        {"runs": 7},
        {"before": 0},
        {"running": [["x", -1]]},
        {"running": 3},
    ):
        save_arrays(life.file, "learner", SCHEMA, {**about, "recorded": {**about["recorded"], **change}}, arrays)
        with pytest.raises(cede.UnreadableFile):
            cede.load(life.file)


def test_subprocesses_do_not_keep_the_lock(tmp_path):
    learner, path = cede.fixed(TASKS["horizon"], 0), tmp_path / "a.jsonl"
    recorder = learner.record_to(path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        recorder.close()
        cede.fixed(TASKS["horizon"], 0).record_to(path).close()
        child.communicate(b"\n")
