"""Explains a choice of a learner: why this agent, in this state, at this time?

For every agent that can get control: the cost of the rest of the episode if it gets control now and the plan is followed
afterwards. This cost is computed under the observed frequencies, and at best and at worst within the learner's confidence sets. The
parts of environment, control and switching are computed by the same recursion with the other costs set to 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

import numpy as np

from cede._base import check
from cede._base.archive import path_to_write
from cede._base.arrays import Floats, Policy
from cede._base.calls import clear_call
from cede._base.extras import label, pyplot, save_picture, wrapped_label
from cede._kernels.account import is_hand_over
from cede.beliefs.belief import Belief
from cede.insight.figures import figure
from cede.insight.frequencies import frequencies, prices_in_force
from cede.insight.visits import visits_by_place
from cede.learners.baseline import is_kept_to
from cede.learners.learner import Learner
from cede.planning.chains import chain_of, chain_value
from cede.planning.passes import backup, negated, value_under
from cede.problem.task import NOT_GIVEN, Task

HOW = {None: "", "time": " at this time", "prev_agent": " after the same agent"}  # what a policy may vary with, in words
ROUNDING = 1e-12  # relative to costs: smaller differences count as 0
COSTS = {"environment": ("env_cost", "enter_cost"), "control": ("control_cost",), "switching": ("switch_cost",)}


@dataclass(frozen=True)
class Option:
    """An agent that can get control, and the cost of the rest of the episode if it does."""

    agent: str
    optimistic: float  # cost at best, within the learner's sets; without sets: plain
    plain: float  # cost under the observed frequencies
    pessimistic: float  # cost at worst, within the learner's sets; without sets: plain
    parts: dict[str, float]  # of the plain cost: environment, control, switching, and limits if there are any
    visits: float  # of the agent's row in this state
    width: float  # of the agent's set in this state: 0 is certainty, 2 or more excludes nothing
    outcome_visits: float  # fewest visits of an environment row, over the actions that it may take here
    outcome_width: float  # greatest width of an environment set, over these actions
    index: int  # index of the agent in the task


@dataclass(frozen=True)
class Explanation:
    """Why a learner hands control to an agent: the costs of all options, and one sentence. `explain` returns it; print it to read
    it.
    """

    t: int | None  # None where there is no horizon
    state: int
    prev_agent: int
    chosen: int  # index of the agent in the task
    options: tuple[Option, ...]  # agents that can get control, in the order of the task
    bounded: bool  # whether the learner has confidence sets; if not, optimistic and pessimistic equal plain
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def chosen_name(self) -> str:
        """Return the name of the agent that is chosen."""
        return next(option.agent for option in self.options if option.index == self.chosen)

    def draw(self, path: str | Path) -> Path:
        """Draw the cost of each option and its parts, and write the picture to a file. Return its path."""
        return draw(self, path_to_write("draw", "path", path))


@clear_call
def explain(learner: Learner, t: int | None = None, state: int | str = NOT_GIVEN, prev_agent: int | str = NOT_GIVEN) -> Explanation:
    """Explain a choice of a learner: the cost of every option, and one sentence.

    learner: any but UCRL2. t: the time step; left out without a horizon. state: index or name. prev_agent: the agent in control
    before, index or name.

    For every agent that can get control, the result has the optimistic, plain and pessimistic cost of the rest of the episode,
    visits, and widths. With a discount it is the discounted cost of all future steps. For averages it is relative to a run that
    begins in state 0, and all three are plain: confidence sets bound the cost of a step, not this difference.
    """
    owner = "explain"
    check.instance(owner, "learner", learner, Learner)
    if learner.settings.flat:
        check.fail(owner, "learner", learner.settings.name, "one that tells agents and environment apart")
    task = learner.task
    if task.horizon is None and t is not None:
        check.fail(owner, "t", check.show(t), "left out: the task has no horizon")
    now = 0 if task.horizon is None else check.index(owner, "t", t, task.horizon)
    state = task.state_index(owner, "state", state)
    if task.is_terminal[state]:
        check.fail(owner, "state", state, "one in which an episode goes on: it ends there, and nobody is in control")
    prev = task.agent_index(owner, "prev_agent", prev_agent)
    plan = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)
    chosen = learner.choose(now, state, prev) if learner.settings.planning == "greedy" else int(plan[now, state, prev])
    prices = prices_in_force(learner)
    bounded = learner.settings.has_sets and (task.horizon is not None or task.discount is not None)
    plain_sets, costs = frequencies(learner), learner.costs
    sets = learner.beliefs if bounded else plain_sets
    plain_task = costs.middle(owner, task)
    candidates = np.flatnonzero(task.may_choose(state, prev)).tolist()
    here = (plan, now, state, prev, candidates)
    parts = {
        part: costs_ahead(plain_task.only_costs(**{name: getattr(plain_task, name) for name in names}), plain_sets, *here)
        for part, names in COSTS.items()
    }
    if prices is not None:
        parts["limits"] = costs_ahead(task.only_costs(), plain_sets, *here, prices)
    plain = low = high = [sum(part) for part in zip(*parts.values(), strict=True)]
    if bounded:
        low = costs_ahead(costs.least(owner, task), sets, *here, prices)
        opposite = costs_ahead(negated(costs.most(owner, task)), sets, *here, None if prices is None else -prices)
        high = [0.0 - cost for cost in opposite]
    options = []
    for i, agent in enumerate(candidates):
        split = {part: of_agents[i] for part, of_agents in parts.items()}
        rows = seen_here(learner, sets, now, state, prev, agent)
        options.append(Option(task.agents[agent], low[i], plain[i], high[i], split, *rows, agent))
    certain = bounded and not learner.settings.is_scaled  # scaled sets give no valid interval
    text = in_words(learner, plain_task, options, candidates, chosen, state, prev, certain)
    worth = task.layout.factor**-now if task.weighs_steps else 1.0  # prices count every step alike, costs do not
    whole = check.printable(baseline_note(learner) + text + price_note(learner.prices, worth))  # names are data
    return Explanation(None if task.horizon is None else now, state, prev, chosen, tuple(options), bounded, whole)


def costs_ahead(
    task: Task,
    sets: tuple[Belief, Belief],
    plan: Policy,
    t: int,
    state: int,
    prev: int,
    agents: Sequence[int],
    prices: Floats | None = None,
) -> list[float]:
    """Return the cost from a state on, after prev, if an agent gets control at time t and a plan is followed afterwards, for each
    of some agents.

    It is the least within sets of tables. task, prices: the costs.
    """
    if prices is not None and task.horizon is None:
        task, prices = replace(task, control_cost=task.control_cost + prices), None
    gain = 0.0
    if task.horizon is None and task.discount is None:  # under frequencies: no sets
        chain = chain_of(task, *sets, plan)
        solution = chain_value(chain.matrix, chain.cost, 1.0)
        value, gain = solution.relative.reshape(plan.shape), float(solution.level[state * task.n_agents + prev])
    else:
        value = value_under(task, *sets, plan, prices)
    after, policy, result = value[t + 1 if task.horizon is not None else 0], plan[t].copy(), []
    for agent in agents:
        policy[state, prev] = agent
        now, _ = backup(task, *sets, after, t=t, follow=policy, prices=prices)
        result.append(float(now[state, prev]) - gain)
    return result


def baseline_note(learner: Learner) -> str:
    """Return a sentence if the learner keeps to its baseline in this episode; else an empty text."""
    baseline = learner.settings.baseline
    if baseline is None or not is_kept_to(learner.state.record):
        return ""
    return f"The learner keeps to the baseline ({baseline.name}) in this episode: it is not proven yet what deviating may cost. "


def price_note(prices: dict[str, float], worth: float) -> str:
    """Return a sentence with the prices of limits, by member; empty if they are 0. worth: factor of a price now."""
    changes = [
        f"a step of {name} counts {figure(abs(price) * worth, digits=2)} {'more' if price > 0 else 'less'}"
        for name, price in prices.items()
        if price
    ]
    return f" To keep within its limits, {' and '.join(changes)}; the costs compared here include that." if changes else ""


def seen_here(
    learner: Learner, sets: tuple[Belief, Belief], t: int, state: int, prev: int, agent: int
) -> tuple[float, float, float, float]:
    """Return visits and width of an agent's row in a state, and fewest visits and greatest width of environment rows.

    There is one such environment row for each action that the agent may take.
    """
    task, (acted, followed) = learner.task, visits_by_place(learner)
    slot = int(task.layout.slot[agent]) + {None: 0, "time": t, "prev_agent": prev}[(task.varies_with or ())[agent]]
    mine = int(sets[0].row[slot, state])
    table = sets[0].centre
    weights = table.weight[table.start[mine] : table.start[mine] + table.size[mine]]
    taken = table.column[table.start[mine] : table.start[mine] + table.size[mine]][weights > 0]
    certain = sets[0].width[mine] == 0 and len(taken)
    actions = [int(a) for a in taken] if certain else list(range(task.n_actions))
    place = state if task.periods is None else int(task.periods[t]) * task.n_states + state
    widest = max(float(sets[1].distances[sets[1].row[place, a]]) for a in actions)
    return float(acted[slot, state]), float(sets[0].distances[mine]), float(followed[place, actions].min()), widest


def in_words(
    learner: Learner,
    task: Task,
    options: Sequence[Option],
    candidates: Sequence[int],
    chosen: int,
    state: int,
    prev: int,
    bounded: bool,
) -> str:
    """Return a sentence with the expected saving against the previous agent, or against the next best one.

    task: the learner's, with observed costs. options, candidates: the options, and the agent of each. bounded: whether confidence
    sets bound the saving.
    """
    place = candidates.index(chosen)
    mine, name, stays = options[place], task.members[task.layout.aim[chosen]], not is_hand_over(task.layout.aim, prev, chosen)
    others = [i for i in range(len(options)) if i != place]
    if not others:
        return only_choice(task, name, chosen)
    same = [i for i in others if not is_hand_over(task.layout.aim, prev, candidates[i])]
    rest = same if same and not stays else others
    best = min(rest, key=lambda i: options[i].plain)
    other, rival = options[best], task.members[task.layout.aim[candidates[best]]]
    stake = max(abs(mine.plain), abs(other.plain))
    saved = other.plain - mine.plain if abs(other.plain - mine.plain) > ROUNDING * stake else 0.0
    least, most = other.optimistic - mine.pessimistic, other.pessimistic - mine.optimistic
    head = f"{name} {'takes over' if not stays else 'has taken over' if prev >= len(task.members) else 'stays in control'}"
    if len(task.roles.orders.outcomes(prev, chosen)) > 1:
        head = f"{name} is {'called' if not stays else 'waited for'}"
    span = "over the rest of the episode" if task.horizon is not None else "in the long run"
    between = f" (between {figure(least, stake)} and {figure(most, stake)})" if bounded else ""
    if saved > 0:
        text = f"{head}: expected to save {figure(saved, stake)} against {rival} {span}{between}"
    elif saved == 0:
        text = f"{head}: by what was seen it costs as much as {rival}{between}"
    else:
        why = ", as the given policy says" if learner.settings.policy is not None else " to find out"
        text = f"{head}{why}: by what was seen it costs {figure(-saved, stake)} more than {rival} {span}"
        if most > 0 and learner.settings.has_sets:
            text += f", but it may save up to {figure(most, stake)}"
    handing = float(task.control_costs(state, prev, chosen)[1])
    if not stays and handing > 0:
        text += f", after paying {figure(handing)} for the hand-over" if saved > 0 else f"; the hand-over costs {figure(handing)}"
    return f"{text}. {seen_in_words(learner, chosen, mine.visits)}"


def seen_in_words(learner: Learner, agent: int, visits: float) -> str:
    """Return a sentence with the visits of the acting member in this state."""
    task, settings, table = learner.task, learner.settings, int(learner.task.table[agent])
    declared = {} if settings.structure is None else settings.structure.agents
    where = f"here{HOW[task.table_varies[table]]}"
    where += " or where it acts alike" if task.tables[table] in declared else ""
    name, known = task.members[task.acting[agent]], "; its policy is known" if table in settings.knowledge.agents else ""
    return f"{name} was {'never ' if visits == 0 else ''}seen acting {where}{'' if visits == 0 else f' {times(visits)}'}{known}."


def times(visits: float) -> str:
    """Return a number of visits in words; it may have faded."""
    return "once" if visits == 1 else "less than once" if visits < 1 else f"{visits:,.0f} times"


def only_choice(task: Task, name: str, chosen: int) -> str:
    """Return the sentence for the case that there is no other agent to choose."""
    if chosen >= len(task.members):
        return f"{name} is taking over: a hand-over that has begun is finished."
    return f"{name} is in control: there is nobody else{'' if task.n_agents == 1 else ' to whom control could be handed'}."


COLOURS = {"environment": "#009E73", "control": "#E69F00", "switching": "#CC79A7", "limits": "#56B4E9"}


def draw(explanation: Explanation, path: Path) -> Path:
    """Draw an explanation and write the picture to a file."""
    plt = pyplot()
    chosen = next(i for i, option in enumerate(explanation.options) if option.index == explanation.chosen)
    shown, title = [wrapped_label(option.agent) for option in explanation.options], wrap(explanation.text, 100)
    shown[chosen] += " (chosen)"
    high = max(0.5, 0.1 + 0.15 * max(name.count("\n") + 1 for name in shown))  # of an option, in inches
    size = (7.6, 1.4 + 0.14 * len(title) + high * len(shown))
    picture, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained", sharey=True)
    for place, option in enumerate(explanation.options):
        colour = "#D55E00" if place == chosen else "#888888"
        left.plot([option.optimistic, option.pessimistic], [place, place], color=colour, linewidth=4, alpha=0.35)
        left.plot(option.plain, place, "o", color=colour)
        begin_up, begin_down = 0.0, 0.0
        for name, amount in option.parts.items():
            begin = begin_up if amount >= 0 else begin_down
            right.barh(place, amount, left=begin, color=COLOURS[name], height=0.5, label=name if place == 0 else None)
            begin_up, begin_down = begin_up + max(amount, 0.0), begin_down + min(amount, 0.0)
    left.set_yticks(range(len(shown)), shown, fontsize=8)
    left.set_ylim(len(shown) - 0.5, -0.5)
    left.set_xlabel("cost of the rest of the episode" if explanation.t is not None else "cost in the long run", fontsize=8)
    right.set_xlabel("what it is made of, by what was seen", fontsize=8)
    picture.legend(loc="outside lower center", ncols=len(COLOURS), fontsize=7, frameon=False)
    picture.suptitle("\n".join(label(line) for line in title), fontsize=8)
    try:
        return save_picture(picture, path, bbox_inches="tight")  # whatever the names: nothing is cut off
    finally:
        plt.close(picture)
