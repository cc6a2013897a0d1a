"""A learner: counts of what was seen, and the current plan. learners.py has recipes for the parts that it is made of."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__, _kernels
from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.progress import Progress
from cede._kernels import Mind, Radii
from cede.learning.counts import Counts, EnvironmentTally, Episode, Tally, as_counts, check_counted, check_outcomes, checked_episode
from cede.learning.forgetting import Window
from cede.learning.logs import read_log
from cede.learning.packing import save_learner
from cede.learning.promises import may_deviate, note_episode, plan_changed, promised, undecided
from cede.learning.settings import (
    Recipe,
    certain_belief,
    declared,
    mind_of,
    radii_ahead,
    row_maps,
    sizes_of,
    tally_parts,
    with_memory,
)
from cede.learning.state import NOTHING, Memory, Seen
from cede.planning.belief import Belief, belief_of
from cede.planning.planner import Plan, empty_plan, hands_for, room_for, run_pass
from cede.planning.tables import read_only
from cede.problem.task import Task

MOST_SEED = 2**31 - 1


class Learner:
    """Learns one team's switching policy: counts of what was seen, and the current plan.

    Between `end_episode` and the next, `plan` is fixed; hand it out and use it anywhere. Every call checks its arguments first:
    after an error the learner is as it was before.
    """

    def __init__(self, task: Task, recipe: Recipe, *, seed: int = 0, counts: Counts | None = None) -> None:
        self.task = task
        self.recipe = recipe
        self.seed = check.integer(recipe.name, "seed", seed, 0, MOST_SEED)
        self._memory: Memory | None = NEW
        if counts is not None:
            windows = [rule for rule in (*recipe.forget.values(), recipe.forget_environment) if isinstance(rule, Window)]
            if windows:
                check.fail(recipe.name, "counts", "given", f"left out with {windows[0]}: it must see the steps to forget them")
            total = Counts.zeros(task, flat=recipe.flat, structure=recipe.structure) + counts
            rows, columns = total.environment.nonzero()
            check_counted(recipe.name, declared(recipe), rows, columns)
            for layer, fades in (("agents", bool(recipe.forget)), ("environment", recipe.forget_environment is not None)):
                data = getattr(total, layer).data
                if not fades and (data != np.round(data)).any():
                    check.fail(recipe.name, f"a count of {layer}", data[data != np.round(data)][0], "whole: it forgets nothing")
            self._memory = Memory.of(total)
        self._live: Live | None = None  # its working form: one of the two is there
        self._shared: EnvironmentTally | None = None  # the environment of a fleet
        self._steps: list[tuple[int, int, int, int, int, int]] = []  # of the running episode, one by one
        self._episode: Episode | None = None  # the running episode, if it was observed all at once

    # ------------------------------------------------------------------------------------------------- in a control loop

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """The agent to put in control at time t, when prev_agent was in control before."""
        task = self.task
        t = check.index("choose", "t", t, task.horizon)
        state = check.index("choose", "state", state, task.n_states)
        prev_agent = check.index("choose", "prev_agent", prev_agent, task.n_agents)
        if self.recipe.planning == "greedy":
            return int(self._visit(t, state)[prev_agent])
        return int(self.plan.policy[t, state, prev_agent])

    def observe(self, t: int, state: int, prev_agent: int, agent: int, action: int, next_state: int) -> None:
        """One step, in order: t = 0, 1, 2, ... `agent` is who really acted, whatever was chosen."""
        task = self.task
        t = check.index("observe", "t", t, task.horizon)
        if self._episode is not None:
            check.fail("observe", "this episode", "observed already", "ended first (end_episode)")
        if t != len(self._steps):
            check.fail("observe", "t", t, f"{len(self._steps)}, the next step of this episode")
        step = (
            t,
            check.index("observe", "state", state, task.n_states),
            check.index("observe", "prev_agent", prev_agent, task.n_agents),
            check.index("observe", "agent", agent, task.n_agents),
            check.index("observe", "action", action, task.n_actions),
            check.index("observe", "next_state", next_state, task.n_states),
        )
        if self._steps and step[2] != self._steps[-1][3]:
            check.fail("observe", "prev_agent", step[2], f"{self._steps[-1][3]}, who acted in the step before")
        if declared(self.recipe) is not None:
            check_outcomes("observe", self.recipe.structure, np.array(step[1:2]), np.array(step[4:5]), np.array(step[5:6]))
        self._steps.append(step)

    def end_episode(self, *, replan: bool | None = None, stays_in: int | None = None) -> None:
        """Count what was seen and plan again if the learner's rule (`replan=` of its recipe) says so; or, told so, in any case
        (True) or not at all (False); greedy planning keeps no plan. An episode may end before the horizon.

        stays_in: the state in which it has ended for good. The learner is shown that nothing leads out of it, whatever is done, as
        often as there are steps left; nobody is in control of anything in them.
        """
        end = None if stays_in is None else check.index("end_episode", "stays_in", stays_in, self.task.n_states)
        if end is not None:
            every = np.arange(self.task.n_actions)
            check_outcomes("end_episode", self.recipe.structure, np.full_like(every, end), every, np.full_like(every, end))
        for layer in ("agents", "environment"):
            self.recipe.scale.at(layer, self.episode + 1)  # a schedule that fails must fail before anything is counted
        left = self.task.horizon - self.observed
        if end is not None and left > 0:
            if self.recipe.planning == "greedy":
                for t in range(self.task.horizon - left, self.task.horizon):
                    self._visit(t, end)
            self._working.tally.stay_in(end, left)
        self.count_episode(end)
        if replan:
            self.replan()
        elif replan is False:
            self._working.stale = False
        else:
            self._keep_plan()

    def learn_from(self, log: Any, *, progress: bool | Callable[[int], None] = True) -> int:
        """Count logged steps of any past controller, and plan again; how many episodes there were.

        log: columns state, agent, action and next_state, and t or episode (see logs.py): a mapping of arrays, a data frame, a
        structured array, or Episodes. All is checked first. A learner that learned from a log is the same as one that saw it live,
        and its time counts all the same: the n-th logged episode is its n-th. But what it promises (limits, a baseline) is of
        the time in which it decides itself: neither shares nor costs of the log count.
        """
        owner = "learn_from"
        if self.observed:
            check.fail(owner, "the number of steps of the running episode", self.observed, "0: end it first (end_episode)")
        episodes = read_log(owner, self.task, log)
        for number, steps in enumerate(episodes):
            place = f"next_state of step {{i}} of logged episode {number}"
            check_outcomes(owner, self.recipe.structure, steps.states, steps.actions, steps.next_states, place)
        for layer in ("agents", "environment"):
            for episode in range(self.episode, self.episode + len(episodes) + 1):
                self.recipe.scale.at(layer, episode)  # a schedule that fails must fail before anything is counted
        last_only = self.recipe.planning == "greedy" or self.recipe.replan in ("every", 1)
        with Progress("log", len(episodes), progress, 1) as bar:
            for number, steps in enumerate(episodes):
                if not last_only:
                    self._keep_plan()  # as it was when the episode began
                if self.recipe.planning == "greedy":
                    for t, state in zip(steps.times, steps.states, strict=True):
                        self._visit(int(t), int(state))
                self._working.tally.add(*steps)
                self.count_episode()
                if not last_only or number == len(episodes) - 1:
                    self._keep_plan()
                bar.advance(1)
        return len(episodes)

    def _keep_plan(self) -> None:
        """After an episode: plan if that is due. Greedy planning keeps none."""
        if self.recipe.planning == "full":
            self._own_plan()

    def count_episode(self, stays_in: int | None = None) -> None:
        """`end_episode` without planning: whether a plan is due is asked when it is needed, as in the rounds of a fleet."""
        live = self._working
        if self._steps:
            times, states, prevs, agents, actions, nexts = np.array(self._steps, dtype=np.int64).T.copy()
            live.tally.add(times, states, prevs, agents, actions, nexts)
            note_episode(self.task, live.mind, live.plan, states, prevs, agents, actions, stays_in)
            self._steps = []
        if self._episode is not None:
            live.tally.add_episode(self._episode)
            steps = (self._episode.states[:-1], self._episode.prev_agents, self._episode.agents, self._episode.actions)
            note_episode(self.task, live.mind, live.plan, *steps, stays_in)
            self._episode = None
        live.mind.caution.record[_kernels.DECIDED : _kernels.DECIDED + 1] = 0.0  # empty if there is no baseline
        live.tally.end_episode()
        live.stale = True
        if self.recipe.planning == "greedy":  # keeps no plan
            live.plan, live.planned = None, 0

    def drop_episode(self) -> None:
        """Forget what was observed of the running episode."""
        self._steps, self._episode = [], None

    def replan(self) -> None:
        """Plan anew from all that was counted."""
        if self.recipe.policy is None:
            live = self._working
            live.plan = self._make_plan(live)
            live.stale = False
            plan_changed(live.mind, self.observed > 0)

    def observe_episode(self, episode: Episode) -> None:
        """All steps of an episode at once; they count when `end_episode` is called."""
        if self.observed:
            check.fail("observe_episode", "the number of steps observed already", self.observed, "0")
        checked = checked_episode("observe_episode", self.task, episode)
        steps = (checked.states[:-1], checked.actions, checked.states[1:])
        check_outcomes("observe_episode", self.recipe.structure, *steps, "next_state of step {i}")
        self._episode = checked

    @property
    def observed(self) -> int:
        """Steps of the running episode that were observed; they count when it ends."""
        return len(self._steps) if self._episode is None else len(self._episode.actions)

    # ------------------------------------------------------------------------------------------------- in a fleet

    @property
    def shared_environment(self) -> EnvironmentTally | None:
        """What the fleet that it belongs to has seen of the environment; None: it belongs to none, or cannot share."""
        return self._shared

    def join(self, environment: EnvironmentTally) -> None:
        """From now on count the environment together with others, and plan from what all have seen. What it has seen itself
        must be counted there already.
        """
        memory = replace(undecided(self.memory), environment=NOTHING, environment_episodes=0, plan=None, planned=0)
        self._shared = environment
        self.remember(memory)

    def leave(self) -> None:
        """Go on alone, with all that the fleet has seen of the environment."""
        if self._shared is not None:
            memory, seen = self.memory, Seen.of(self._shared.counts)
            memory = replace(memory, environment=seen, environment_episodes=self._shared.episodes)
            self._shared = None
            self.remember(memory)

    @property
    def memory(self) -> Memory:
        """All that it keeps, packed."""
        live = self._live
        if live is None:
            assert self._memory is not None
            return self._memory
        tally, mind = live.tally, live.mind
        shared = self._shared is not None
        environment = NOTHING if shared else Seen.of(tally.environment.counts)
        return Memory(
            episodes=tally.episodes,
            environment_episodes=0 if shared else tally.environment.episodes,
            agents=Seen.of(tally.agents.matrix(tally.agent_rows)),
            environment=environment,
            plan=live.plan,
            planned=live.planned,
            stale=live.stale,
            planned_agents=mind.planned_agents.copy(),
            planned_environment=mind.planned_environment.copy(),
            bounds=mind.bounds.copy(),
            recent_agents=tally.fading[0].recent.copy(),
            recent_environment=tally.fading[1].recent.copy(),
            prices=mind.limits.prices.copy(),
            record=mind.caution.record.copy(),
        )

    def remember(self, memory: Memory) -> None:
        """Replace all that it keeps, its running episode too."""
        self._memory, self._live = memory, None
        self.drop_episode()

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all; `cede.load` gives it back, and it goes on bit for bit as if never stopped."""
        save_learner(self, path)

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def plan(self) -> Plan:
        """The plan of the current episode. With greedy planning: what would be chosen everywhere, as things stand when first asked
        in this episode. With a baseline: that one, unless the learner may deviate. With limits, values count their prices.
        """
        own = self._own_plan()
        if self.recipe.caution is None or may_deviate(self.task, self._working.mind, self._radii(), own):
            return own
        return Plan(read_only(self.recipe.caution.baseline), no_value(self.task))  # kernels trust it: nobody may change it

    @property
    def prices(self) -> dict[str, float]:
        """What a step under the control of each member of the team counts beyond its control cost, so that limits are met."""
        prices = self._working.mind.limits.prices
        return dict(zip(self.task.members, (prices[0] - prices[1]).tolist(), strict=True)) if prices.size else {}

    def _own_plan(self) -> Plan:
        """What it would do if it had no baseline to keep to."""
        live = self._working
        if live.plan is None or (live.stale and _kernels.is_due(live.mind, self.episode, live.planned)):
            live.plan = self._make_plan(live)
        live.stale = False
        return live.plan

    @property
    def counts(self) -> Counts:
        """A snapshot of what was seen in all finished episodes."""
        if self._live is not None:
            return self._live.tally.counts
        r = self.recipe
        counts = self.memory.counts(self.task, flat=r.flat, structure=r.structure)
        agents = as_counts(counts.agents, fades=bool(r.forget))
        if self._shared is None:
            environment = as_counts(counts.environment, fades=r.forget_environment is not None)
            return replace(counts, agents=agents, environment=environment)
        return replace(counts, agents=agents, environment=self._shared.counts, environment_episodes=self._shared.episodes)

    @property
    def episode(self) -> int:
        """k = 1, 2, ...: the episode that is running or about to start."""
        return (self.memory.episodes if self._live is None else self._live.tally.episodes) + 1

    @property
    def environment_episodes(self) -> int:
        """Episodes that were counted into what it knows of the environment, of all teams that share it."""
        if self._shared is not None:
            return self._shared.episodes
        return self.memory.environment_episodes if self._live is None else self._live.tally.environment.episodes

    @property
    def beliefs(self) -> tuple[Belief, Belief]:
        """The sets that follow from what was counted: agents, environment. Snapshots: they stay when the learner goes on."""
        mind, rows = self._working.mind, self._working.rows
        _kernels.believe(mind, self._radii(), self._tie_seed())
        agents = certain_belief(self.task) if self.recipe.flat else belief_of(mind.agents, self.task.n_actions, rows[0])
        return agents, belief_of(mind.environment, self.task.n_states, rows[1])

    @property
    def settings(self) -> dict[str, Any]:
        """All that is needed to repeat it."""
        r, bounded = self.recipe, self.recipe.radius is not None
        return {
            "learner": r.name,
            "radius": r.radius if r.agents_radius is None else f"{r.agents_radius} (agents), {r.radius} (environment)",
            "delta": r.delta if bounded else None,
            "scale": str(r.scale) if bounded else None,
            "prior": r.prior or None,
            "structure": None if r.structure is None else str(r.structure),
            "forget": {**r.forget, **({} if r.forget_environment is None else {"the environment": r.forget_environment})} or None,
            **promised(self.task, r),
            "known_agents": [self.task.tables[table] for table in r.known_agents],
            "known_environment": r.known_environment is not None,
            "planning": r.planning,
            "replan": r.replan,
            "seed": self.seed,
            "cede": __version__,
        }

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    def _make_plan(self, live: "Live") -> Plan:
        r, task = self.recipe, self.task
        if r.policy is not None:
            plan = Plan(r.policy, no_value(task))
        else:
            mind = live.mind
            _kernels.believe(mind, self._radii(), self._tie_seed())
            _kernels.set_prices(mind.limits)
            policy, value = empty_plan(task)
            mode, source = (_kernels.CHOOSE, value) if r.planning == "full" else (_kernels.RAISE, mind.bounds)
            run_pass(mind.problem, mind.agents, mind.environment, mode, policy, value, self._tie_seed(), source)
            _kernels.note_visits(mind)
            plan = Plan(policy, value)
        live.planned = self.episode
        return plan

    def _visit(self, t: int, state: int) -> Policy:
        """Greedy planning: back up one state. The agents to put in control there, by previous agent."""
        mind, task = self._working.mind, self.task
        policy, _ = empty_plan(task)
        room = room_for(mind.problem, policy.shape, mind.agents, mind.environment)
        hands = hands_for(task.n_states, mind.environment.row.shape[1], task.n_agents)
        _kernels.visit_once(mind, self._radii(), policy, t, state, self._tie_seed(), room, hands)
        chosen: Policy = policy[t, state]
        return chosen

    def _tie_seed(self) -> int:
        """Ties depend on the seed and the episode alone: from the same counts, in the same episode, comes the same full plan."""
        return int(_kernels.tie_seed(self.seed, self.episode))

    def _radii(self) -> Radii:
        """The numbers behind the radii of this episode."""
        ahead = radii_ahead(self.recipe.scale, self._working.sizes, self.episode, self.environment_episodes, 1)
        return Radii(*(float(array[0]) for array in ahead))

    def __getstate__(self) -> dict[str, Any]:
        """For copies: the arrays of the working form look at one another, which copying would undo. The packed form goes along."""
        return {**self.__dict__, "_memory": self.memory, "_live": None, "_steps": list(self._steps)}

    @property
    def _working(self) -> "Live":
        """The working form, made from the packed one when first needed."""
        if self._live is None:
            assert self._memory is not None
            live = Live(self.task, self.recipe, self._memory, self._shared)
            self._live, self._memory = live, None
        return self._live


NEW = Memory()


def no_value(task: Task) -> Floats:
    """Of a plan of whose cost nothing is believed."""
    return np.broadcast_to(np.nan, (task.horizon + 1, task.n_states, task.n_agents))


def can_share(recipe: Recipe) -> bool:
    """Does such a learner learn something of the environment that others could use?"""
    learns = not recipe.flat and recipe.known_environment is None and recipe.policy is None
    return learns and recipe.forget_environment is None


class Live:
    """The working form of a learner: tables that grow in place, the current plan, and the arrays for the kernels."""

    def __init__(self, task: Task, recipe: Recipe, memory: Memory, shared: EnvironmentTally | None) -> None:
        self.task, self.recipe = task, recipe
        counts = memory.counts(task, flat=recipe.flat, structure=recipe.structure)
        self.tally = Tally(task, counts, environment=shared, **tally_parts(task, recipe, memory))
        self.plan, self.planned, self.stale = memory.plan, memory.planned, memory.stale
        self.rows = row_maps(task, recipe, self.tally)
        self.sizes = sizes_of(task, recipe)
        self._mind = with_memory(mind_of(task, recipe, self.tally, self.rows, None), task, recipe, memory)

    @property
    def mind(self) -> Mind:
        """The arrays for the kernels: made once, and again when a table of counts had to move."""
        agents, environment, kept = self.tally.agents, self.tally.environment.table, self._mind
        if kept.seen_agents.column is not agents.column or kept.seen_environment.column is not environment.column:
            self._mind = kept = mind_of(self.task, self.recipe, self.tally, self.rows, kept)
        return kept
