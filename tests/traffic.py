"""Steps of simulated teams, as clients would report them."""

from dataclasses import replace

import numpy as np
from sqlalchemy import text

import cede
from cede.serve.http.setup import checked, checked_fallback
from cede.serve.store.log import COLUMNS, StepReport
from cede.steps.step import Episode


def river(n_agents=2, **more):
    """A small problem, whose teams differ in nothing but what they do."""
    chances = [0.3, 0.7, 0.5][:n_agents]
    return cede.worlds.riverswim(agents=chances, switch_cost=0.1, **more)


def without_horizon(mdp, discount):
    """The task of a problem, but without a horizon."""
    return replace(mdp.task, horizon=None, discount=discount)


def put(store, learner, teams, environment="river"):
    """Make an environment, with the settings of a learner, and teams by their names and seeds."""
    served = checked("test", learner.task, learner.settings)
    fallback = checked_fallback("test", learner.task, None)
    store.database.write(lambda c: store.put_environment(c, environment, served, fallback))
    common = store.environment(environment).served
    for name, seed in teams.items():
        store.database.write(lambda c, n=name, s=seed: store.put_team(c, n, environment, common, s, fallback))
    return [store.team(name) for name in teams]


def episodes(mdp, n, seed):
    """Episodes under a policy that hands control over at random, some of them cut short."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n):
        policy = rng.integers(mdp.task.n_agents, size=mdp.task.policy_shape).astype(np.int16)
        episode = cede.rollout(mdp, policy, seed=rng)
        length = int(rng.integers(1, len(episode.actions) + 1)) if rng.random() < 0.3 else len(episode.actions)
        cut = {name: getattr(episode, name) for name in ("prev_agents", "agents", "actions", "costs", "env_costs", "enter_costs")}
        cut = {name: None if array is None else array[:length] for name, array in cut.items()}
        result.append(Episode(states=episode.states[: length + 1], **cut))
    return result


def rows(team, number, episode):
    """The steps of an episode as rows of a report."""
    result = []
    for t in range(len(episode.actions)):
        amounts = (None if a is None else float(a[t]) for a in (episode.env_costs, episode.enter_costs))
        step = (episode.states[t], episode.prev_agents[t], episode.agents[t], episode.actions[t], episode.states[t + 1])
        result.append((team.id, number, t, *(int(one) for one in step), *amounts, *[None] * 5))
    assert all(len(row) == len(COLUMNS) for row in result)
    return result


def report(rows=(), ends=()):
    """A report."""
    return StepReport(tuple(rows), tuple(ends))


def observe(learner, episode):
    """Let a learner see an episode."""
    learner.observe_episode(episode)
    learner.end_episode(replan=False)


def run(connection, sql, values=()):
    """Run SQL with ? for its values."""
    for i in range(len(values)):
        sql = sql.replace("?", f":v{i}", 1)
    return connection.execute(text(sql), {f"v{i}": value for i, value in enumerate(values)})
