"""Plans in memory: those of teams that are used, newest first, also if another server made them."""

import pytest

import cede
from cede.serve.planner.plans import PlanCache, Planner
from cede.serve.store.log import take_in
from traffic import episodes, put, report, river, rows


def tell(store, team, number):
    episode = episodes(river(), 1, number)[0]
    one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
    return store.database.write(lambda c: take_in(c, store.team, [one]))[1]


def decide(plans, name):
    return plans.decide(name, plans.known(name), 0, 0, 0)


def test_what_another_server_made_is_seen(store):
    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    plans = PlanCache(store)
    plans.refresh()
    assert decide(plans, "a").plan == "fallback"
    assert Planner(store).once() == 1
    assert plans.load("a").plan.version == 1
    assert decide(plans, "a").plan == "fresh"
    plans.refresh()
    plans.counted({"a": tell(store, team, 0)[team.id]})
    assert decide(plans, "a").plan == "stale"
    assert Planner(store).once() == 1
    plans.refresh()
    found = decide(plans, "a")
    assert (found.plan, found.version) == ("fresh", 2)
    assert plans.known("b") is None
    put(store, cede.recommended(river().task), {"b": 1})
    plans.refresh()
    assert decide(plans, "b").plan == "fallback"


def test_a_plan_is_never_replaced_by_an_older_one(store):
    put(store, cede.recommended(river().task), {"a": 0})
    made = []
    planner = Planner(store, published=made.append)
    planner.once()
    tell(store, store.team("a"), 0)
    planner.once()
    plans = PlanCache(store)
    plans.refresh()
    for plan in reversed(made):
        plans.published(plan)
        assert plans.known("a").plan.version == 2


def test_plans_that_are_not_used_go_to_sleep(store):
    put(store, cede.recommended(river().task), dict.fromkeys("abc", 0))
    Planner(store).once()
    size = 20 * 6 * 2 * 2  # bytes of a policy
    plans = PlanCache(store, most=2 * size)
    plans.refresh()
    for name in "ab":
        plans.load(name)
    decide(plans, "a")
    plans.load("c")
    assert len(plans) == 2
    assert [decide(plans, name).plan for name in "abc"] == ["fresh", "fallback", "fresh"]


def test_fallback_and_ranges(store):
    put(store, cede.recommended(cede.worlds.support_desk().task), {"a": 0})
    plans = PlanCache(store)
    plans.load("a")
    with pytest.raises(ValueError, match="decide: prev_agent is 3, must be an integer from 0 to 2"):
        plans.decide("a", plans.known("a"), 0, 0, 3)
    Planner(store, published=plans.published).once()
    with pytest.raises(ValueError, match="decide: state is 10, must be one in which an episode goes on"):
        plans.decide("a", plans.known("a"), 0, 10, 0)
    with pytest.raises(ValueError, match="decide: t is 6, must be an integer from 0 to 5"):
        plans.decide("a", plans.known("a"), 6, 0, 0)
