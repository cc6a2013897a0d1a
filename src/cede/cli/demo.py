"""`cede demo`: runs the recommended learner on three problems, and writes a page. Needs the extra `plots`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cede._base import page
from cede.cli.terminal import Command, CommandGroup, Out, Seed, clear_errors, say

if TYPE_CHECKING:
    from cede.fleet.history import History
    from cede.learners.learner import Learner
    from cede.problem.model import TwoLayerMDP
    from cede.worlds.road import Road

commands = typer.Typer(cls=CommandGroup)
DRIVES, TICKETS = 300, 10_000  # episodes
TEAMS, BEFORE, JOINED = 10, 40, 50  # teams of a fleet, episodes of each, episodes of the driver who joins
PRICES = {"control_cost": 0.2, "switch_cost": 0.1}  # of a step of the human, and of a hand-over
ROADS = 33  # the road with the median saving of these is drawn

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


@dataclass(frozen=True)
class Story:
    """A section of the page: a picture of a run, and text with its numbers."""

    title: str
    before: str  # text above the picture
    picture: Path
    after: str  # text below it
    quote: str = ""  # an explanation by the learner


@commands.command(cls=Command)
def demo(seed: Seed = 0, out: Out = Path("out/demo")) -> None:
    """Run the recommended learner in a car, at a support desk and in a fleet, and write a page. Takes half a minute."""
    with clear_errors():
        from cede._base.extras import need

        need("matplotlib", "plots")
        path = make_demo(seed, out, say)
    say(f"page: {path}")


def make_demo(seed: int, out: Path, say: Callable[[str], None]) -> Path:
    """Run all stories, draw their pictures into a directory, write the page there, and return its path.

    say: called with a line of text before each story.
    """
    from cede._base.archive import write_whole

    out.mkdir(parents=True, exist_ok=True)
    parts = (
        (f"{DRIVES} drives of two drivers who share a car", two_drivers),
        (f"{TICKETS:,} tickets of a support desk", support),
        (f"a driver who joins a fleet of {TEAMS} cars", newcomer),
    )
    stories = []
    for number, (text, tell) in enumerate(parts, start=1):
        say(f"{number}/{len(parts)} {text}")
        stories.append(tell(seed, out))
    path = out / "index.html"
    write_whole(path, page_of(stories))
    return path


# ------------------------------------------------------------------------------------------------- stories


def driver(mdp: "TwoLayerMDP", seed: int, *, structured: bool) -> "Learner":
    """Return the recommended learner of a car. It knows the machine's policy, and, if structured, which situations are alike."""
    from cede.learners.recommended import recommended

    known = {"machine": mdp.team.agents[0].policy}
    return recommended(mdp.task, known_agents=known, structure=mdp.structure if structured else None, seed=seed)


def costs_alone(mdp: "TwoLayerMDP", history: "History") -> dict[str, float]:
    """Return the expected cost of an episode of the best possible policy and of each agent alone, by name."""
    from cede.planning.planner import expected_cost

    alone = {f"{name} alone": float(expected_cost(mdp, mdp.task.always(name))) for name in mdp.task.members}
    return {"best possible": float(history.optimum)} | alone


def two_drivers(seed: int, out: Path) -> Story:
    """Let a machine and a human share a car."""
    from cede.cli import demo_pictures
    from cede.fleet.simulate import simulate
    from cede.worlds.lane_driving import drive, lane_driving

    mdp = lane_driving(sigma=2.0, **PRICES)
    learner = driver(mdp, seed, structured=True)
    history = simulate(mdp, learner, DRIVES, seed=seed)
    costs = costs_alone(mdp, history)
    along = typical_road(mdp, learner, seed)
    policies = {f"{name} alone": mdp.task.always(name) for name in mdp.task.members} | {"together": learner.plan.policy}
    drives = {name: drive(mdp, policy, along, seed=seed) for name, policy in policies.items()}
    last = float(history.expected_cost[-DRIVES // 10 :].mean())
    return Story(
        "Two drivers, one car",
        "A machine that was trained without traffic and a human who sees badly share a car. A step of the human costs "
        f"{PRICES['control_cost']}, a hand-over {PRICES['switch_cost']}. Left: a road that begins in heavy traffic. Right: "
        "the mean over all roads.",
        demo_pictures.draw_drivers(out / "car.png", drives, history.expected_cost, costs),
        f"Over all roads, a drive costs {costs['machine alone']:.1f} with the machine alone and {costs['human alone']:.1f} with "
        f"the human alone. Together, it costs {last:.1f} after {DRIVES} drives; the best possible is {costs['best possible']:.1f}. "
        "The peaks are trial episodes, in which the learner lets one driver drive alone.",
        largest_saving(mdp, learner, along, seed),
    )


def typical_road(mdp: "TwoLayerMDP", learner: "Learner", seed: int) -> "Road":
    """Return the road, of ROADS in heavy traffic, on which sharing the car saves the median amount against the human alone."""
    from cede.worlds import road
    from cede.worlds.lane_driving import drive

    human = mdp.task.always("human")
    roads = [road.sample_road(mdp.task.horizon + 1, "heavy", seed=i + 1000 * seed) for i in range(ROADS)]
    saved = [drive(mdp, human, along, seed=seed).cost - drive(mdp, learner.plan.policy, along, seed=seed).cost for along in roads]
    return roads[sorted(range(ROADS), key=saved.__getitem__)[ROADS // 2]]


def largest_saving(mdp: "TwoLayerMDP", learner: "Learner", along: "Road", seed: int) -> str:
    """Return the learner's explanation of the hand-over on a road that saves most; empty if there is no hand-over."""
    from cede.insight.explaining import explain
    from cede.worlds import road
    from cede.worlds.lane_driving import drive

    driven, before, said = drive(mdp, learner.plan.policy, along, seed=seed), int(mdp.start_agent), {}
    for t, agent in enumerate(driven.agents.tolist()):
        if agent != before:
            explanation = explain(learner, t, road.state_on(along, t, int(driven.lanes[t])), before)
            cost = {option.index: option.plain for option in explanation.options}
            said[cost[before] - cost[agent]] = str(explanation)
        before = agent
    return said[max(said)] if said else ""


def support(seed: int, out: Path) -> Story:
    """Let two models and a person answer tickets."""
    from cede.cli import demo_pictures
    from cede.fleet.simulate import simulate
    from cede.learners.recommended import recommended
    from cede.worlds.support_desk import support_desk

    mdp = support_desk()
    history = simulate(mdp, recommended(mdp.task, seed=seed), TICKETS, seed=seed)
    costs = costs_alone(mdp, history)
    last, control = history.expected_cost[-TICKETS // 10 :].mean(), history.control[-TICKETS // 10 :].sum(axis=0)
    shares = [f"{name} {share:.0%}" for name, share in zip(history.agents, control / control.sum(), strict=True)]
    return Story(
        "A support desk",
        "A small model, a large model and a person answer tickets, and each can hand a ticket on. The learner is told the costs, "
        "but no probabilities of tickets or answers.",
        demo_pictures.draw_desk(out / "desk.png", history, costs),
        f"A ticket costs {costs['person alone']:.2f} with the person alone. In the last {TICKETS // 10:,} tickets it costs "
        f"{last:.2f}; the best possible is {costs['best possible']:.2f}. Shares of steps: {', '.join(shares)}.",
    )


def newcomer(seed: int, out: Path) -> Story:
    """Let a fleet of drivers learn a road, then run a new driver with and without the fleet's counts."""
    from cede.cli import demo_pictures
    from cede.fleet.fleet import Fleet
    from cede.fleet.simulate import simulate, simulate_fleet
    from cede.worlds.lane_driving import lane_driving, lane_driving_teams

    mdps, mdp = lane_driving_teams(TEAMS, seed=seed, **PRICES), lane_driving(sigma=2.0, **PRICES)
    fleet = Fleet([driver(team, seed + i, structured=False) for i, team in enumerate(mdps)])
    simulate_fleet(mdps, fleet, BEFORE, seed=seed, jobs=1)
    known = {"machine": mdp.team.agents[0].policy}
    welcomed = fleet.remove(fleet.welcome(mdp.task, known_agents=known, seed=seed))
    learners = {"alone": driver(mdp, seed, structured=False), "welcomed by the fleet": welcomed}
    histories = {name: simulate(mdp, learner, JOINED, seed=seed) for name, learner in learners.items()}
    costs = costs_alone(mdp, histories["alone"])
    means = {name: history.expected_cost.mean() for name, history in histories.items()}
    return Story(
        "A new driver joins",
        f"{TEAMS} cars with humans of their own have driven {BEFORE} times each. They share their counts of the road. "
        "The learner of a new driver starts with these counts, and must learn the new human only.",
        demo_pictures.draw_newcomer(out / "newcomer.png", histories, costs),
        f"In its first {JOINED} drives the new driver costs {means['alone']:.1f} in the mean without the fleet, and "
        f"{means['welcomed by the fleet']:.1f} with it.",
    )


# ------------------------------------------------------------------------------------------------- page


def page_of(stories: list[Story]) -> str:
    """Return the page as HTML that needs no other file: pictures are part of it."""
    lead = (
        "A team of people, machines or models shares one system, and at each step one of them acts. cede learns, while the system "
        "runs, whom to hand control to, so that the total cost is lowest. All numbers on this page were computed just now."
    )
    code = f"{page.paragraph('A learner needs sizes and costs. The rest is a loop:')}<pre>{page.shown_lines(CODE)}</pre>"
    return page.page("Who should be in control?", lead, *map(section, stories), page.section("In your own system", code))


def section(story: Story) -> str:
    """Return a story as HTML."""
    asked = page.paragraph("The learner explains the hand-over that saves most on this road:")
    quote = f"{asked}<blockquote>{page.shown(story.quote)}</blockquote>" if story.quote else ""
    picture = page.picture(story.title, story.picture.read_bytes())
    return page.section(story.title, page.paragraph(story.before), picture, page.paragraph(story.after), quote)
