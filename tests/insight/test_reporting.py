"""The report: what it says is what `estimate` and a brute-force walk say, whatever the names, with and without a horizon."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.insight.estimating import Estimate
from cede.insight.reporting import handed_over, verdict
from problems import random_mdp

SECTIONS = ["What it costs, and what it saves", "Who acts when", "Hand-overs", "What is uncertain", "How this was computed"]
OPEN = {"meta", "img", "br", "link"}  # without an end


class Reader(HTMLParser):
    """Reads a page: headings, text, addresses of pictures; fails if a tag is not closed."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.headings, self.words, self.sources = [], [], [], []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in OPEN:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack[-1:] == ["h2"]:
            self.headings.append(data)
        if "style" not in self.stack:
            self.words.append(data)


def learned(mdp, episodes=60, make=cede.recommended, **told):
    learner = make(mdp.task, **told)
    length = {"episodes": episodes} if mdp.horizon is not None else {"steps": 20 * episodes}
    cede.simulate(mdp, learner, **length, progress=False)
    return learner


@pytest.mark.parametrize("kind", ["horizon", "discount", "average", "limits", "baseline", "ucrl2", "nothing"])
def test_every_kind_of_learner_has_a_report(kind, tmp_path):
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.1)
    mdp = {"discount": replace(mdp, horizon=None, discount=0.9), "average": replace(mdp, horizon=None)}.get(kind, mdp)
    told = {"limits": {"at_most": {"p=0.7": 0.4}}, "baseline": {"baseline": "p=0.3"}}.get(kind, {})
    make = cede.ucrl2 if kind == "ucrl2" else cede.ucrl2_mc if kind == "baseline" else cede.recommended
    learner = make(mdp.task) if kind == "nothing" else learned(mdp, make=make, **told)
    made = cede.insight.report(learner, draws=20, progress=False)
    read = Reader(made.save(tmp_path / "report.html").read_text())
    assert read.headings == SECTIONS
    assert all(source.startswith("data:image/") for source in read.sources)
    text = " ".join(read.words)
    assert ("Nothing was learned yet" in text) == (kind == "nothing")
    assert ("today's rule" in text) == (kind == "baseline")


def test_costs_and_savings_are_those_of_estimate():
    learner = learned(cede.worlds.support_desk(), 300)
    text = " ".join(Reader(cede.insight.report(learner, today="person", draws=50, progress=False).html).words)
    for one in (cede.estimate(learner, draws=50), cede.estimate(learner, "person", draws=50)):
        assert re.search(rf"\b{re.escape(f'{one.mean:.1g}')}", text), one
    saved = cede.estimate(learner, against="person", draws=50)
    assert ("no saving is shown yet" in text) == (saved.low <= 0 <= saved.high)
    assert "person alone (today's rule)" in text
    rule = cede.insight.report(learner, today=cede.solve(cede.worlds.support_desk()), draws=10, progress=False)
    assert "today's rule" in " ".join(Reader(rule.html).words)


def test_a_verdict_says_no_more_than_its_interval():
    def one(mean, low, high):
        return Estimate(mean, low, high, "posterior draws", 0.9, "plan", "b", "episode", "", 10, 1.0)

    assert verdict(one(-2.0, -3.0, -1.0), "b alone", "episode") == "Against b alone, the plan saves 2 (1 to 3) per episode."
    assert verdict(one(2.0, 1.0, 3.0), "b", "step") == "Against b, the plan costs 2 (1 to 3) more per step."
    assert verdict(one(-1.0, -3.0, 0.5), "b", "episode") == (
        "Against b, no saving is shown yet: per episode it may save up to 3, or cost up to 0.5 more."
    )
    assert verdict(one(0.0, 0.0, 0.0), "b", "episode") == "The plan does the same as b."


def test_hand_overs_are_those_of_a_walk_by_brute_force():
    mdp = random_mdp(5, n_agents=3, horizon=4)
    task, rng = mdp.task, np.random.default_rng(0)
    policy = rng.integers(0, 3, (4, task.n_states, 3))
    met = rng.random((4, task.n_states, 3))
    expected = {}
    for t, s, prev in np.ndindex(*met.shape):
        to = policy[t, s, prev]
        if to != prev:
            often, cost = expected.get((prev, to), (0.0, 0.0))
            expected[prev, to] = often + met[t, s, prev], cost + met[t, s, prev] * task.switch_cost[prev, to]
    moves = handed_over(task, policy, met, [str(s) for s in range(task.n_states)])
    assert {(m.before, m.after): (pytest.approx(m.often), pytest.approx(m.often * m.cost)) for m in moves} == expected
    assert [m.often for m in moves] == sorted((m.often for m in moves), reverse=True)


def test_names_are_shown_and_never_interpreted():
    names = ["<script>alert(1)</script>", "$x^2$ & \x1b[2J"]
    task = cede.Task(n_states=2, n_actions=2, cost_range=(0, 1), agents=names, horizon=3, state_names=["<b>", "&amp;"])
    html = cede.insight.report(cede.recommended(task), title="<h1>", draws=5, progress=False).html
    assert "<script" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    Reader(html)


def test_a_record_and_the_command(tmp_path):
    mdp, steps, saved, out = cede.worlds.support_desk(), tmp_path / "steps.jsonl", tmp_path / "desk.cede", tmp_path / "r.html"
    learner = cede.recommended(mdp.task)
    with learner.record_to(steps):
        for k in range(30):
            learner.observe_episode(cede.rollout(mdp, learner.plan, k))
            learner.end_episode()
    learner.save(saved)

    def run(*arguments):
        return CliRunner().invoke(app, ["report", *map(str, arguments), "--out", str(out)])

    answer = run(saved, steps, "--today", "person", "--title", "Our desk")
    assert answer.exit_code == 0, answer.output
    read = Reader(out.read_text())
    assert read.headings == [*SECTIONS[:3], "What happened", *SECTIONS[3:]]
    record = cede.read_record(steps)
    assert f"{len(record)} steps in 30 episodes." in " ".join(read.words)
    early = record.episodes().cost[:3].mean()
    assert re.search(rf"In the first tenth of them, an episode cost {re.escape(f'{early:.3g}')}", " ".join(read.words))
    cede.Fleet([cede.recommended(mdp.task) for _ in range(2)]).save(tmp_path / "fleet.cede")
    assert run(tmp_path / "fleet.cede", "--team", "1").exit_code == 0
    other = cede.recommended(cede.worlds.riverswim(agents=[0.3, 0.7]).task).save(tmp_path / "river.cede")
    for arguments, text in (
        ((tmp_path / "fleet.cede",), "report: --team is None, must be from 0 to 1: this is a fleet of 2 teams"),
        ((saved, "--team", "0"), "report: --team is 0, must be left out: this is no fleet"),
        ((saved, "--today", "nobody"), "report: today is 'nobody', must be one of"),
        ((tmp_path / "river.cede", steps), "of the record is"),
    ):
        wrong = run(*arguments)
        assert wrong.exit_code == 2, other
        assert text in wrong.output
