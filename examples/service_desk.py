"""The support desk as a service: a server, desks that ask it for decisions and report steps, and a watcher.

Each desk has its own people and models, so it is a team; all desks together learn how customers behave and what waiting costs. A
desk decides by its copy of the policy, and continues if the server is down. The watcher prints what the server knows, and why it
hands over a nasty ticket.

    python examples/service_desk.py --tickets 300 --desks 2
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time

import numpy as np

import cede

PAUSE = 0.02  # seconds between two tickets


def problem():
    """Return the desk and its task for the service; the cost of waiting is unknown."""
    mdp = cede.worlds.support_desk()
    return mdp, mdp.task.with_unknown_costs((0.0, 0.5))


def desk(url, token, name, tickets, seed):
    """Work on tickets. With a `Learner` in place of `client.team(name)` this would be the same loop."""
    mdp, task = problem()
    world, rng = mdp.environment, np.random.default_rng(seed)
    moves = world.transition.toarray().reshape(task.n_states, task.n_actions, task.n_states)
    with cede.Client(url, token, timeout=30.0, refresh=0.2) as client:
        team = client.team(name)
        for _ in range(tickets):
            state, before = int(rng.choice(task.n_states, p=world.start)), team.start_agent
            for t in range(task.horizon):
                agent = team.choose(t, state, before)
                action = int(rng.choice(task.n_actions, p=mdp.team.agents[agent].policy[state]))
                following, cost = (
                    int(rng.choice(task.n_states, p=moves[state, action])),
                    rng.choice(world.random_cost[state, action]),
                )
                team.observe(t, state, before, agent, action, following, cost=cost)
                if following in task.terminal:
                    break
                state, before = following, agent
            team.end_episode()
            time.sleep(PAUSE)
        client.flush(60)


def watch(url, token, names, tickets):
    """Print what the server knows until all tickets are counted and planned for; then who answers, and why."""
    with cede.Client(url, token, timeout=60.0) as client:
        done = -1
        while True:
            teams = [client.ask("GET", f"/v1/teams/{name}").json() for name in names]
            counted = sum(one["episodes"] for one in teams)
            if counted != done:
                versions = ", ".join(f"{name} has plan {one['version']}" for name, one in zip(names, teams, strict=True))
                print(f"{counted} tickets counted; {versions}", flush=True)
            done = counted
            if counted == len(names) * tickets and all(one["due"] is None for one in teams):
                break
            time.sleep(0.5)
        state = problem()[0].environment.state_names.index("nasty, 0 wrong answers")
        for name in names:
            known = client.ask("GET", f"/v1/teams/{name}/summary").json()
            steps = ", ".join(f"{agent} {n:.0f}" for agent, n in zip(known["agents"], known["control"], strict=True))
            why = client.ask("GET", f"/v1/teams/{name}/explain", params={"t": 0, "state": state, "prev_agent": 0}).json()
            print(f"{name}: steps of each: {steps}\n{name}: a nasty ticket: {why['text']}", flush=True)


def main(tickets, desks):
    names, context = [f"desk-{i}" for i in range(desks)], multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "cede.cli", "serve", "--port", "0", "--db", f"sqlite:///{place}/desk.db"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            token, url = (server.stdout.readline().split()[-1] for _ in range(2))
            print(f"server: {url}", flush=True)
            with cede.Client(url, token, timeout=60.0) as client:
                client.put_environment("desk", cede.recommended(problem()[1]))
                for i, name in enumerate(names):
                    client.put_team(name, "desk", seed=i)
                while not all(one["version"] for one in client.ask("GET", "/v1/teams").json()["teams"]):
                    time.sleep(0.1)  # the first plans
            others = [context.Process(target=desk, args=(url, token, name, tickets, i)) for i, name in enumerate(names)]
            others.append(context.Process(target=watch, args=(url, token, names, tickets)))
            for process in others:
                process.start()
            for process in others:
                process.join()
        finally:
            server.terminate()
            server.wait()
    return max(process.exitcode for process in others)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tickets", type=int, default=300, help="of each desk")
    options.add_argument("--desks", type=int, default=2)
    given = options.parse_args()
    sys.exit(main(given.tickets, given.desks))
