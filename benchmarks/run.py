"""All benchmarks in one run: `make bench`. Ratios are the result; seconds stand beside them, but machines are noisy.

Writes a dated table (Markdown), the same as JSON, and a plot of how cost grows into benchmarks/results/. --quick: fewer repeats
and no large problems, to see that it runs; writes to out/bench instead.
"""

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import cede
from cede.fleet import teams
from cede.planning import passes
from cede.planning.planner import optimistic_plan
from measure import Taken, machine, peak_memory, save, seconds_of_process, times
from peers import dense_plan, plain_arguments, plain_backup, quantecon_problem
from problems import lane_belief, random_belief, two_humans
from report import draw_growth, write_table

Row = dict[str, Any]
DISCOUNT = 0.99
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
SCALES = {"constant scales 0.1, 0.01": (0.1, 0.01), "scales 0.3, 0.05": (0.3, 0.05), "known (width 0)": (0.0, 0.0)}


def row(section: str, what: str, against: str, target: str, ours: Taken, theirs: Taken, *, better: str, **more: Any) -> Row:
    """One measured ratio. better: "slower" gives ours / theirs, "faster" theirs / ours."""
    ratio = ours.wall / theirs.wall if better == "slower" else theirs.wall / ours.wall
    cpu = ours.cpu / theirs.cpu if better == "slower" else theirs.cpu / ours.cpu
    result = {"section": section, "what": what, "against": against, "ratio": ratio, "cpu_ratio": cpu, "better": better}
    return {**result, "target": target, "wall_ms": 1e3 * ours.wall, "cpu_ms": 1e3 * ours.cpu, **more}


def forget() -> None:
    """No help from the plan before: where its searches ended is forgotten."""
    passes.forget_scratch()


def planner(sizes: tuple[int, ...], repeats: int) -> list[Row]:
    rows = []
    problems: list[tuple[str, str, int, Callable[[], Any]]] = [
        (f"lane driving, {name}", "<= 3", repeats, lambda s=scale: lane_belief(cede.Scale(*s))) for name, scale in SCALES.items()
    ]
    problems += [(f"random, {n:,} states", "<= 5", repeats if n < 50_000 else 3, lambda n=n: random_belief(n)) for n in sizes]
    for name, target, n, make in problems:
        task, agents, environment = make()
        arguments = plain_arguments(task, agents, environment)

        def again(problem: Any = (task, agents, environment)) -> None:
            optimistic_plan(*problem)

        def scratch(problem: Any = (task, agents, environment)) -> None:
            forget()
            optimistic_plan(*problem)

        second, first, plain = times(again, scratch, lambda arguments=arguments: plain_backup(*arguments), repeats=n)
        nonzeros = int(environment.centre.size.sum())
        touched = nonzeros * task.n_agents * task.horizon
        more = {"states": task.n_states, "nonzeros": nonzeros, "plain_ns": 1e9 * plain.wall / touched}
        for how, taken in (("from scratch", first), ("planned again", second)):
            ns = {"ns_per_nonzero": 1e9 * taken.wall / touched}
            rows.append(
                row("planner", f"{name}, {how}", "plain compiled backup", target, taken, plain, better="slower", **more, **ns)
            )
    return rows


BELIEFS: dict[str, Callable[[cede.TwoLayerMDP], dict[str, Any]]] = {
    "relative entropy": lambda mdp: {"belief": "kl"},
    "structure, relative entropy": lambda mdp: {"belief": "kl", "structure": mdp.structure},
    "Bernstein": lambda mdp: {"belief": "bernstein"},
    "structure": lambda mdp: {"structure": mdp.structure},
    "structure, Bernstein": lambda mdp: {"belief": "bernstein", "structure": mdp.structure},
}


def beliefs(repeats: int) -> list[Row]:
    """Belief and plan of one episode in lane driving, after the same episodes, by what is believed."""
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    known = {"known_agents": {"machine": mdp.team.agents[0].policy}}
    scaled = {"scale": cede.Scale(0.1, 0.01)}  # printed radii are vacuous here, and quick to plan with
    learners = {name: cede.ucrl2_mc(mdp.task, **known, **scaled, **ways(mdp)) for name, ways in BELIEFS.items()}
    learners["recommended"] = cede.recommended(mdp.task, **known)
    learners["posterior sampling"] = cede.posterior_sampling(mdp.task, **known)
    learners["posterior sampling, structure"] = cede.posterior_sampling(mdp.task, structure=mdp.structure, **known)
    printed = cede.ucrl2_mc(mdp.task, **known, **scaled)
    rng = np.random.default_rng(0)
    policies = rng.integers(2, size=(300, mdp.horizon, mdp.task.n_states, 2))
    episodes = [cede.rollout(mdp, policy, rng) for policy in policies]
    for learner in (printed, *learners.values()):
        learner.learn_from(episodes, progress=False)
    taken = times(printed.replan, *(learner.replan for learner in learners.values()), repeats=repeats)
    against = "L1 balls, no structure"
    named = zip(learners, taken[1:], strict=True)
    return [row("beliefs", f"plan, lane driving, {name}", against, "", one, taken[0], better="slower") for name, one in named]


def task_size(problem: Any) -> int:
    return int(problem[0].n_states)


def threads(sizes: tuple[int, ...], repeats: int) -> list[Row]:
    rows = []
    problems = [("lane driving", lane_belief(cede.Scale(0.1, 0.01)))]
    problems += [(f"random, {n:,} states", random_belief(n)) for n in sizes if n in (1_000, 10_000, 100_000)]
    for name, problem in problems:
        plans = {}

        def plan_with(n: int, problem: Any = problem, plans: Any = plans) -> None:
            passes.set_threads(n)
            plans[n] = optimistic_plan(*problem)

        def side_by_side(problem: Any = problem) -> None:
            """Two plans that know nothing of each other: what this machine's second core is worth at this moment."""
            passes.set_threads(1)
            list(pool.map(lambda _: optimistic_plan(*problem), range(2)))

        n = repeats if task_size(problem) < 50_000 else 5
        with ThreadPoolExecutor(2) as pool:
            two, one, both = times(lambda p=plan_with: p(2), lambda p=plan_with: p(1), side_by_side, repeats=n)
        passes.set_threads(1)
        same = all(np.array_equal(getattr(plans[1], f), getattr(plans[2], f)) for f in ("policy", "value"))
        assert same, "two threads must give the bits of one"
        rows.append(row("threads", f"{name}, two threads", "one thread", ">= 1.6", two, one, better="faster", same_bits=same))
        twice = Taken(2 * one.wall, 2 * one.cpu)
        what = f"{name}, two plans side by side (the machine's limit)"
        rows.append(row("threads", what, "one after the other", "", both, twice, better="faster"))
    return rows


def endless(repeats: int) -> Row:
    """A discounted problem without horizon, beside the fastest of QuantEcon's three methods on the product form."""
    mdp = replace(two_humans(), horizon=None, discount=DISCOUNT)
    ddp = quantecon_problem(mdp)
    value = cede.solve(mdp).value
    fastest: Taken | None = None
    for method in ("policy_iteration", "modified_policy_iteration", "value_iteration"):
        found = ddp.solve(method=method, epsilon=1e-6, max_iter=100_000)
        np.testing.assert_allclose(-found.v.reshape(value.shape), value, atol=1e-5)
        (taken,) = times(lambda method=method: ddp.solve(method=method, epsilon=1e-6, max_iter=100_000), repeats=min(repeats, 3))
        fastest = taken if fastest is None or taken.wall < fastest.wall else fastest
    (ours,) = times(lambda: cede.solve(mdp), repeats=repeats)
    assert fastest is not None
    what = f"solve without horizon, lane driving, discount {DISCOUNT}"
    return row("peers", what, "the fastest of QuantEcon's methods, product form", ">= 10", ours, fastest, better="faster")


def peers(repeats: int) -> list[Row]:
    from quantecon.markov import backward_induction

    rows = []
    lane = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    known = {"lane driving": (lane, ">= 20"), "lane driving, agents that do not vary with time": (two_humans(), "")}
    for name, (mdp, target) in known.items():
        ddp = quantecon_problem(mdp)
        zeros = np.zeros(ddp.num_states)
        value = cede.solve(mdp).value[0]
        theirs = -backward_induction(ddp, mdp.horizon, zeros)[0][0, : value.size]
        np.testing.assert_allclose(theirs.reshape(value.shape), value, atol=1e-9)
        ours, quantecon = times(
            lambda mdp=mdp: cede.solve(mdp),
            lambda mdp=mdp, ddp=ddp, zeros=zeros: backward_induction(ddp, mdp.horizon, zeros),
            repeats=repeats,
        )
        against = "QuantEcon backward_induction, product form"
        rows.append(row("peers", f"solve, {name}", against, target, ours, quantecon, better="faster"))
    rows.append(endless(repeats))
    task, agents, environment = lane_belief(cede.Scale(0.1, 0.01))
    value = optimistic_plan(task, agents, environment).value
    np.testing.assert_allclose(dense_plan(task, agents, environment), value, atol=1e-9)
    (ours,) = times(lambda: optimistic_plan(task, agents, environment), repeats=repeats)
    (dense,) = times(lambda: dense_plan(task, agents, environment), repeats=1)
    what = "optimistic plan, lane driving, 1,152 states"
    rows.append(row("peers", what, "dense NumPy transcription", ">= 100", ours, dense, better="faster"))
    return rows


def worlds() -> dict[str, tuple[cede.TwoLayerMDP, dict[str, Any]]]:
    lane = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    known = {"known_agents": {"machine": lane.team.agents[0].policy}, "scale": cede.Scale(0.1, 0.01)}
    return {"RiverSwim": (cede.worlds.riverswim(agents=[0.3, 0.7]), {}), "lane driving": (lane, known)}


def per_episode(mdp: cede.TwoLayerMDP, learner: Any, seconds: float, repeats: int, **options: Any) -> Taken:
    """Of a learner that has run for a while, in blocks of episodes that take about so long."""
    options = options or {"evaluate_every": 10**9}
    cede.simulate(mdp, learner, 3000, progress=False, evaluate_every=10**9)
    episodes, taken = 100, 0.0
    while taken < seconds:
        episodes *= 2
        begin = perf_counter()
        cede.simulate(mdp, learner, episodes, progress=False, **options)
        taken = perf_counter() - begin
    (block,) = times(lambda: cede.simulate(mdp, learner, episodes, progress=False, **options), repeats=repeats)
    return Taken(block.wall / episodes, block.cpu / episodes)


def planning_less(repeats: int) -> list[Row]:
    """What greedy planning and the replanning rules save, per episode, without evaluation."""
    rows = []
    for world, (mdp, options) in worlds().items():
        ways = {"full": {}, "greedy": {"planning": "greedy"}, "doubling": {"replan": "doubling"}, "every 10": {"replan": 10}}
        learners = [cede.ucrl2_mc(mdp.task, **options, **way) for way in ways.values()]
        taken = [per_episode(mdp, learner, 0.3, repeats) for learner in learners]
        names = {"greedy": "greedy planning", "doubling": 'replan="doubling"', "every 10": "replan=10"}
        for way, ours in list(zip(ways, taken, strict=True))[1:]:
            target = ">= 50" if (world, way) == ("lane driving", "greedy") else ""
            what = f"{world}, {names[way]}, an episode"
            rows.append(row("planning less", what, "a full plan in every episode", target, ours, taken[0], better="faster"))
    return rows


def episodes_per_second(repeats: int) -> list[Row]:
    """Whole episodes with exact evaluation, each learner alone on one core."""
    rows = []
    for world, (mdp, options) in worlds().items():
        told = replace(mdp.task, varies_with=None)
        scale = {"scale": options["scale"]} if "scale" in options else {}
        known = {"known_agents": options["known_agents"]} if "known_agents" in options else {}
        every, seldom = {"evaluate_every": 1}, {"evaluate_every": 100}
        ways = {
            "UCRL2-MC": (cede.ucrl2_mc(mdp.task, **options), every),
            'UCRL2-MC, replan="doubling"': (cede.ucrl2_mc(mdp.task, **options, replan="doubling"), every),
            "UCRL2-MC, greedy planning": (cede.ucrl2_mc(mdp.task, **options, planning="greedy"), every),
            "UCRL2-MC, greedy planning, evaluated every 100": (cede.ucrl2_mc(mdp.task, **options, planning="greedy"), seldom),
            "UCRL2 (same-form)": (cede.ucrl2(told, radius="same-form", **scale), every),
            "greedy": (cede.greedy(mdp.task, **known), every),
            "one agent": (cede.fixed(mdp.task, 0), every),
        }
        for name, (learner, how) in ways.items():
            taken = per_episode(mdp, learner, 0.3, repeats, **how)
            share = kernel_share(mdp, learner, max(200, int(0.3 / taken.wall)), **how)
            here = {"section": "episodes", "what": f"{world}, {name}", "per_second": 1 / taken.wall}
            rows.append({**here, "wall_us": 1e6 * taken.wall, "cpu_us": 1e6 * taken.cpu, "kernel_share": share})
    return rows


def kernel_share(mdp: cede.TwoLayerMDP, learner: Any, episodes: int, **options: Any) -> float:
    """Part of the time that `simulate` spends inside compiled code."""
    inside, kernel = 0.0, teams.play_teams

    def timed(*arguments: Any) -> Any:
        nonlocal inside
        begin = perf_counter()
        result = kernel(*arguments)
        inside += perf_counter() - begin
        return result

    teams.play_teams = timed
    try:
        begin = perf_counter()
        cede.simulate(mdp, learner, episodes, progress=False, **options)
        return inside / (perf_counter() - begin)
    finally:
        teams.play_teams = kernel


def memory(sizes: tuple[int, ...]) -> list[Row]:
    largest = max(sizes)
    plan = "from problems import random_belief\nfrom cede.planning.planner import optimistic_plan\n"
    plan += f"optimistic_plan(*random_belief({largest}))"
    lane = "import cede\nm = cede.worlds.lane_driving()\nlearner = cede.ucrl2_mc(m.task, scale=0.1)\n"
    lane += "cede.simulate(m, learner, 300, progress=False)"
    cases = {
        "kernels loaded, nothing planned": ("import cede\ncede.solve(cede.worlds.riverswim())", ""),
        "lane driving, a learner for 300 episodes": (lane, ""),
        f"{largest:,} states, 4 actions, 3 agents, 10 successors, horizon 20: one plan": (plan, "<= 1.5 GiB"),
    }
    return [{"section": "memory", "what": w, "gib": peak_memory(code), "target": t} for w, (code, t) in cases.items()]


def start_up() -> list[Row]:
    both = "import cede; m = cede.worlds.riverswim(); "
    both += "cede.simulate(m, cede.ucrl2_mc(m.task), 2, progress=False)"
    with tempfile.TemporaryDirectory() as empty:
        first = seconds_of_process(both, NUMBA_CACHE_DIR=empty)
        second = seconds_of_process(both, NUMBA_CACHE_DIR=empty)
    cases = {
        "import cede": seconds_of_process("import cede"),
        "a first run: compiles the kernels": first,
        "every later run": second,
    }
    return [{"section": "start-up", "what": what, "seconds": seconds} for what, seconds in cases.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, small problems")
    quick = parser.parse_args().quick
    sizes, repeats = (SIZES[:2], 2) if quick else (SIZES, 11)
    few = min(repeats, 5)
    facts = machine()
    sections = (
        lambda: planner(sizes, repeats),
        lambda: beliefs(repeats),
        lambda: threads(sizes, repeats),
        lambda: peers(repeats),
        lambda: planning_less(few),
        lambda: episodes_per_second(few),
        lambda: memory(sizes),
        start_up,
    )
    rows: list[Row] = []
    for section in sections:
        found = section()
        rows += found
        for one in found:
            print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in one.items() if v != ""), flush=True)
    out = Path("out/bench") if quick else Path(__file__).parent / "results"
    out.mkdir(parents=True, exist_ok=True)
    name = datetime.now(UTC).strftime("%Y-%m-%d")
    save(out / f"{name}.json", {"date": name, "quick": quick, "machine": facts, "rows": rows})
    written = [write_table(out / f"{name}.md", name, facts, rows), draw_growth(out / f"{name}.png", rows, facts)]
    print(*(f"written: {path}" for path in written), sep="\n")


if __name__ == "__main__":
    main()
