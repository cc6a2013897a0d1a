"""The demo: the learner that we recommend at work, and after it the paper's experiments from stored results, on one page."""

from collections.abc import Callable
from html import escape
from pathlib import Path

from cede._base.archive import write_whole
from cede.experiments.catalogue import FIGURES
from cede.experiments.claims.verdicts import paper_findings
from cede.experiments.figure import Options
from cede.experiments.report import claims_table, document, section
from cede.experiments.run import run
from cede.experiments.tables import load_table, select

SHOWN = ("together", "desk", "joins")
PAPER = (
    "roads",
    "single-team",
    "many-teams",
    "human-control",
    "hundred-teams",
    "team-count",
    "action-size",
    "team-size",
    "guarantee",
)
STORED = Path(__file__).parents[3] / "results"  # in a checkout: the results of the full runs

CODE = """
import cede

task = cede.Task(n_states=60, n_actions=4, env_cost=..., agents=["robot", "operator"],
                 control_cost={"operator": 0.2}, switch_cost=0.1, horizon=40)
learner = cede.recommended(task)

state, agent = 0, task.start_agent
for t in range(task.horizon):
    prev_agent, agent = agent, learner.choose(t, state, agent)      # who should act now?
    action, next_state = your_system(agent, state)
    learner.observe(t, state, prev_agent, agent, action, next_state)
    state = next_state
learner.end_episode()                                               # learn, and plan again
""".strip()


def make_demo(options: Options, say: Callable[[str], None]) -> Path:
    """Run the figures of a first look, and write the page; return its path."""
    run([FIGURES[name] for name in SHOWN], options, say)
    path = options.out / "index.html"
    write_whole(path, page(options.out, STORED))
    return path


def page(out: Path, stored: Path) -> str:
    """Return the whole page. out: holds what the demo has run. stored: results of full runs; left out if they are not there."""
    body = f"""
<h1>Who should be in control?</h1>
<p class="lead">A team of people, machines or models shares one system, and at each step one of them acts. cede learns, while the
system runs, whom to hand control to, so that the total cost is lowest.</p>
{section(out, FIGURES["together"], more=why(out))}
{section(out, FIGURES["desk"])}
{section(out, FIGURES["joins"])}
<h2 id="yours">In your own system</h2>
<p>Sizes and costs are all it must be told. The rest is a loop:</p>
<pre>{escape(CODE)}</pre>
{paper(stored)}
"""
    return document("cede: who should be in control?", body)


def why(out: Path) -> str:
    """Return what the learner says about the hand-over that saves most on the roads that were driven."""
    found = select(load_table(out / "together.csv"), kind="why")
    if not found:
        return ""
    most = max(found, key=lambda row: row["saved"])
    asked = f"Asked who should take over from the {most['prev_agent']} in this situation ({most['state']}), the learner says:"
    return f"<p>{escape(asked)}</p><blockquote>{escape(most['text'])}</blockquote>"


def paper(stored: Path) -> str:
    """Return the experiments of the paper, as they came out in full runs, and the verdicts on its claims."""
    there = [name for name in PAPER if (stored / f"{name}.png").exists() and (stored / f"{name}.csv").exists()]
    if not there:
        return ""
    return f"""
<h2 id="paper">The paper, experiment by experiment</h2>
<p>The method behind it, UCRL2-MC, is from a paper on 2-layer Markov decision processes. These are its experiments at full size,
from stored results; <code>cede figure NAME</code> runs one again.</p>
{"".join(section(stored, FIGURES[name], level=3) for name in there)}
<h2 id="claims">What the paper claims, and what we measured</h2>
{claims_table(paper_findings(stored), there)}
"""
