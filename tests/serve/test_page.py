"""The dashboard and cede.js, in Chromium."""

import hashlib
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cede.serve.http.app import create_app
from cede.serve.http.page import PAGE
from cede.serve.service import ServiceOptions
from cede.serve.store.database import Database
from serving import Server
from traffic import run

CHROMIUM = Path("/usr/bin/chromium")
EVIL = "<img src=x onerror=alert(1)>"
NAMES = [EVIL, "shallow [b]", "${7*7}", "{{x}}", "deep & wide", "\u202efar bank"]


# ------------------------------------------------------------------------------------------------- without a browser


def test_files_of_others_are_what_the_list_says():
    lines = (PAGE / "vendor" / "README").read_text().splitlines()
    listed = {parts[3]: parts[4] for line in lines if len(parts := line.split()) == 5 and len(parts[4]) == 64}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (PAGE / "vendor").glob("*.*")}
    assert found == listed
    assert len(found) == 4
    assert {path.name for path in (PAGE / "vendor").glob("LICENSE-*")} == {
        "LICENSE-preact",
        "LICENSE-htm",
        "LICENSE-uPlot",
    }


def test_our_files_have_no_inline_scripts_and_no_way_to_make_markup_of_text():
    page = (PAGE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert not re.search(r"\son\w+=|style=|https?:", page)
    for path in PAGE.glob("*.js"):
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), path
        assert not re.search(r"https?://(?!control\.example/)", text), path
        assert max(map(len, text.splitlines())) <= 170, path


def test_files_are_served_with_strict_headers(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/cede.db")
    with TestClient(create_app(database, ServiceOptions(hosts=("*",), plans=False))) as client:
        found = client.get("/")
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        policy = found.headers.get_list("content-security-policy")
        assert len(policy) == 1
        assert "default-src 'none'" in policy[0]
        assert "script-src 'self';" in policy[0]
        assert "unsafe" not in policy[0]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert client.get("/", headers={"if-none-match": found.headers["etag"]}).status_code == 304
        for name in re.findall(r'(?:src|href)="(page/[^"]+)"', found.text):
            assert client.get(f"/{name}").status_code == 200, name
        for wrong in ("/page/", "/page/../app.py", "/page/%2e%2e/app.py", "/page/vendor/README", "/page/index.html"):
            assert client.get(wrong).status_code == 404
        assert not any(path.startswith("/page") or path == "/" for path in client.get("/openapi.json").json()["paths"])
    with TestClient(create_app(database, ServiceOptions(hosts=("*",), plans=False, root_path="/control"))) as client:
        assert all(client.get(f"/control/{name}").status_code == 200 for name in ("", "page/app.js", "page/vendor/htm.mjs"))
        assert not re.search(r'(?:src|href)="/', client.get("/control/").text)
    database.close()


# ------------------------------------------------------------------------------------------------- in Chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("page"), agents=("<b>left</b>", "right"), state_names=NAMES)
    yield found
    found.close()


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason='Playwright is not installed: pip install "cede[dev]"')
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed: apt-get install -y --no-install-recommends chromium")
    with api.sync_playwright() as playwright:  # for this module only: while it runs, no other test could run an event loop
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(chromium, server):
    """Open a page; at the end of the test nothing must have gone wrong in it."""
    contexts, wrong = [], []

    def open_it(address="", *, token=None, at=server, **more):
        context = chromium.new_context(**more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        if token is not None:
            page.goto(f"{at.url}/#token={token}")
            page.wait_for_selector("header")
        if address or token is None:
            page.goto(f"{at.url}/{address}")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert wrong == []


def until(page, true):
    """Wait for an expression to be true. Playwright's own way evaluates text within the page, which the page forbids."""
    for _ in range(15_000):
        if page.evaluate(true):
            return
        page.wait_for_timeout(20)
    raise AssertionError(true)


def test_a_token_is_entered_once(server, open_page):
    page = open_page()
    page.get_by_label("Token").fill("cede_nothing_x")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="is not valid").wait_for()
    page.get_by_label("Token").fill(server.token)
    page.get_by_role("button", name="Show").click()
    page.get_by_role("heading", name="river").wait_for()  # the first environment is shown
    assert server.token not in page.url
    page.reload()
    page.get_by_role("heading", name="river").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("sessionStorage.length + localStorage.length + document.cookie.length") == 0


def test_numbers_are_those_of_the_service_and_names_are_text(server, open_page):
    page = open_page("#/team/boat", token=server.token)
    page.get_by_role("heading", name="Cost of an episode", exact=True).wait_for()
    history = server("GET", "/v1/teams/boat/history").json()["buckets"]
    rows = page.locator("section[aria-labelledby=chart-cost] tbody tr")  # the table is there before anybody asks for it
    assert rows.count() == len(history)
    shown = [rows.nth(i).locator("td").first.inner_text() for i in range(len(history))]
    assert shown == [f"{one['cost']:,.2f}" for one in history]
    last = history[-1]
    share = max(range(2), key=lambda i: last["control"][i])
    story = page.locator(".story").first.inner_text()
    assert f"{['<b>left</b>', 'right'][share]} was in control" in story
    assert f"An episode cost {last['cost']:.2f}" in story
    page.locator(".map th", has_text=EVIL).wait_for()
    assert page.locator("img[src=x]").count() == 0
    table = page.get_by_role("button", name="Table of Cost of an episode")
    region = page.get_by_role("region", name="Table of Cost of an episode")
    assert region.bounding_box()["height"] < 2
    table.press("Enter")
    assert region.bounding_box()["height"] > 50
    assert table.get_attribute("aria-pressed") == "true"


def test_who_is_in_control_where_and_why_by_keyboard(server, open_page):
    page = open_page("#/team/boat", token=server.token)
    found = server("GET", "/v1/teams/boat/map").json()
    cells = page.locator(".map .cell")
    cells.first.wait_for()
    assert cells.count() == 12
    assert page.locator(".map tbody tr").first.locator("th").inner_text() == found["rows"][0]["name"]
    cells.first.focus()
    page.keyboard.press("Enter")
    page.locator(".bars").wait_for()
    place = found["rows"][0]["state"]
    explained = server("GET", f"/v1/teams/boat/explain?t=0&state={place}&prev_agent=0").json()
    why = page.locator("section[aria-labelledby=why]")
    assert why.locator(".story").inner_text() == explained["text"]
    assert why.locator("tr.chosen td").first.inner_text() == f"{explained['options'][explained['chosen']]['plain']:.2f}"
    step = server("GET", "/v1/teams/boat/episodes/3/steps").json()["steps"][2]
    page.get_by_role("button", name="Why step 2", exact=True).press("Enter")
    page.locator("section[aria-labelledby=why]", has_text="In the log").locator(".bars").wait_for()
    query = f"t=2&state={step['state']}&prev_agent={step['prev_agent']}"
    assert why.locator(".story").inner_text() == server("GET", f"/v1/teams/boat/explain?{query}").json()["text"]
    page.get_by_label("Search states").fill("deep")
    until(page, "document.querySelectorAll('.map tbody tr').length === 1")
    page.get_by_label("Time step").first.fill("7")
    page.get_by_text("at time step 7").wait_for(state="attached")
    page.locator("section[aria-labelledby=uncertain] table").first.wait_for()
    page.locator("section[aria-labelledby=health]", has_text="healthy").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="csv").click()
    assert download.value.suggested_filename == "boat.csv"
    assert Path(download.value.path()).read_text() == server("GET", "/v1/teams/boat/steps?format=csv").text


def test_what_happens_is_shown_at_once_and_after_a_break(server, open_page):
    page = open_page("#/team/canoe", token=server.token)
    page.get_by_text("No episode is counted yet").wait_for()
    page.locator("header .badge.good").wait_for()
    server.tell("canoe", 0, server.settings[0])
    page.locator(".facts", has_text="from 1 episode").wait_for()
    page.locator("section[aria-labelledby=log] tbody tr").first.wait_for()
    server.hang_up()
    page.locator("header .badge.bad").wait_for()
    server.tell("canoe", 1, server.settings[1])
    page.locator(".facts", has_text="from 2 episodes").wait_for()
    page.locator("header .badge.good").wait_for()


def test_thousands_of_teams_are_paged_and_searched(server, open_page):
    for i in range(60):
        server("PUT", f"/v1/teams/wagon-{i:02d}", {"environment": "river"})
    page = open_page(token=server.token)
    teams = page.locator("nav .list").last.locator("li")
    until(page, "document.querySelectorAll('nav .list:last-of-type li').length >= 50")
    assert teams.count() == 50
    page.get_by_role("button", name="Next teams").click()
    page.get_by_role("link", name="wagon-59").wait_for()
    assert teams.count() == 12
    page.get_by_role("button", name="Previous teams").click()
    page.get_by_role("link", name="boat").wait_for()
    page.get_by_label("Search teams").fill("WAGON-3")
    until(page, "document.querySelectorAll('nav .list:last-of-type li').length === 10")
    page.get_by_role("link", name="wagon-37").click()
    page.get_by_role("heading", name="wagon-37").wait_for()
    assert page.evaluate("document.activeElement.id") == "title"


def test_a_token_for_one_team_sees_that_team(server, open_page):
    some = server.make(["read"], ["boat"])
    server.app.state.service.tokens.refresh()
    page = open_page(token=some)
    page.get_by_role("heading", name="boat").wait_for()
    page.locator(".map .cell").first.wait_for()
    assert page.locator("nav .list li").count() == 1
    assert page.get_by_role("alert").count() == 0


def work_out(page):
    """Let the page work out what each alone would cost, by keyboard."""
    alone = page.locator("section[aria-labelledby=alone]")
    alone.get_by_role("button", name="Estimate").press("Enter")
    alone.get_by_role("button", name="Estimate again", disabled=False).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_bars_anybody(server, open_page, scheme):
    """No serious finding of axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []
    if scheme == "light":
        page = open_page()
        page.get_by_label("Token").wait_for()
        found.append(axe.run(page))
    page = open_page(token=server.token, color_scheme=scheme)
    page.locator("#chart-cost").wait_for()
    page.goto(f"{server.url}/#/team/boat")
    page.locator(".map .cell").nth(3).click()
    page.locator(".bars").wait_for()
    page.get_by_role("button", name="Table of Who is in control").click()
    page.locator("section[aria-labelledby=uncertain] table").first.wait_for()
    work_out(page)
    found.append(axe.run(page))
    for one in found:
        serious = [
            (v["id"], v["nodes"][0]["html"][:200]) for v in one.response["violations"] if v["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert len(one.response["passes"]) > 10


def test_it_fits_a_telephone(server, open_page):
    page = open_page("#/team/boat", token=server.token, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.locator(".map .cell").first.wait_for()
    work_out(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    menu = page.get_by_role("button", name="Teams")
    assert not page.get_by_label("Search teams").is_visible()
    menu.tap()
    page.get_by_role("link", name="canoe").tap()
    page.get_by_role("heading", name="canoe").wait_for()
    assert not page.get_by_label("Search teams").is_visible()


# ------------------------------------------------------------------------------------------------- cede.js

LOAD = """async ([token, name]) => {
    const { Client } = await import(new URL("page/cede.js", location.href).href);
    window.client = new Client(location.origin, token, { refresh: 100 });
    window.team = await client.team(name);
    window.walk = async (from, to, agent) => {
        for (let t = from; t < to; t++) {
            const before = agent;
            agent = team.choose(t, t % 6, before);
            await team.observe(t, t % 6, before, agent, 0, (t + 1) % 6);
        }
        return agent;
    };
}"""


def wait_plan(server, name):
    while (found := server("GET", f"/v1/teams/{name}/policy")).status_code != 200:
        pass
    return found.json()


def steps_of(server, name):
    """All steps of a team, from the database: (episode, t, prev_agent, agent, chosen, version, reason)."""
    with server.database.read() as connection:
        sql = """SELECT s.episode, s.t, s.prev_agent, s.agent, s.chosen, s.version, s.reason
            FROM steps s JOIN teams t ON t.id = s.team WHERE t.name = ? ORDER BY s.episode, s.t"""
        return [tuple(row) for row in run(connection, sql, (name,))]


def counted(server, name):
    return server("GET", f"/v1/teams/{name}").json()["episodes"]


def test_the_log_says_which_plan_chose_and_why(server, open_page):
    server("PUT", "/v1/teams/raft", {"environment": "river"})
    assert wait_plan(server, "raft")["version"] == 1
    step = {"episode": 0, "state": 0, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 0}
    told = [{}, {"version": 1, "chosen": 0}, {"version": 9, "reason": "plan"}, {"version": 0}]
    steps = [{**step, "t": t, **more} for t, more in enumerate(told)]
    assert server("POST", "/v1/teams/raft/steps", {"steps": steps}).status_code == 200
    page = open_page("#/team/raft", token=server.token)
    page.get_by_role("button", name="Why step 3", exact=True).wait_for()
    cells = page.locator("table.steps tbody tr td:nth-child(5)")
    assert cells.all_inner_texts() == ["", "plan 1, a trial episode", "plan 9", "no plan yet: the fallback agent"]
    page.get_by_role("button", name="Why step 1", exact=True).press("Enter")
    words = "In the log: <b>left</b> acted, as chosen (plan 1, a trial episode)."
    page.locator("section[aria-labelledby=why]", has_text=words).wait_for()
    assert "This is a trial episode: one member has control" in page.locator("section[aria-labelledby=where]").inner_text()


def test_what_each_alone_would_cost_is_worked_out_when_asked_for(server, open_page):
    page = open_page("#/team/boat", token=server.token)
    alone = page.locator("section[aria-labelledby=alone]")
    alone.wait_for()
    assert alone.locator("tbody tr").count() == 0
    work_out(page)
    expected = [server("GET", f"/v1/teams/boat/estimate{query}").json() for query in ("", "?policy=0", "?policy=1")]
    rows = alone.locator("tbody tr")
    assert [rows.nth(i).locator("th").inner_text().strip() for i in range(3)] == ["the plan", "<b>left</b>", "right"]
    for i, one in enumerate(expected):
        assert rows.nth(i).locator("td").all_inner_texts() == [f"{one[name]:,.2f}" for name in ("mean", "low", "high")]
    for text in ("From 4 episodes of this team", "90% of 200 posterior draws", *expected[0]["warnings"]):
        assert text in alone.inner_text()


def test_cede_js_is_used_like_a_learner(server, open_page):
    server("PUT", "/v1/teams/js-1", {"environment": "river"})
    plan, page = wait_plan(server, "js-1"), open_page()
    token = server.make(["decide", "report"], ["js-1"])
    server.app.state.service.tokens.refresh()
    page.evaluate(LOAD, [token, "js-1"])
    told = page.evaluate("[team.startAgent, team.agents, team.horizon, team.version]")
    assert told == [0, ["<b>left</b>", "right"], 20, plan["version"]]
    page.evaluate("walk(0, 20, team.startAgent).then(() => team.endEpisode())")
    page.evaluate("client.flush()")
    found, agent = steps_of(server, "js-1"), 0
    assert [row[1] for row in found] == list(range(20))
    for _, t, prev, acted, chosen, version, reason in found:
        assert (prev, acted, chosen, version) == (agent, plan["policy"][t][t % 6][agent], acted, plan["version"])
        assert reason == plan["reason"] == "audition"  # a new team begins with that
        agent = acted
    assert counted(server, "js-1") == 1
    until(page, "team.version > 1")  # the next plan comes by itself
    status = page.evaluate("client.status")
    assert status == {"unsent": 0, "refused": [], "reachable": True, "problem": "", "lasting": True}
    for call, detail in (
        ("team.choose(20, 0, 0)", "choose: t is 20, must be an integer from 0 to 19"),
        ("team.choose(0, 0.5, 0)", "choose: state is 0.5"),
        ("team.observe(1, 0, 0, 0, 0, 0)", "observe: t is 1, must be 0, the next step of this episode"),
        ("team.observe(0, 0, 0, 2, 0, 0)", "observe: agent is 2"),
        ("team.observe(0, 0, 0, 0, 0, 0, {cost: NaN})", "observe: cost is NaN, must be a finite number"),
    ):
        assert detail in page.evaluate(f"() => {{ try {{ {call}; return ''; }} catch (error) {{ return error.message; }} }}")
    assert steps_of(server, "js-1") == found


def test_cede_js_goes_on_while_the_service_is_away_and_after_a_reload(server, open_page):
    server("PUT", "/v1/teams/js-2", {"environment": "river"})
    wait_plan(server, "js-2")
    page = open_page()
    page.evaluate(LOAD, [server.token, "js-2"])
    page.route("**/v1/**", lambda route: route.abort())
    page.evaluate("walk(0, 20, 0).then(() => team.endEpisode())")
    page.evaluate("walk(0, 7, 0)")
    until(page, "client.status.reachable === false && team.age > 0.3")
    assert page.evaluate("client.status.unsent") == 28  # an end, too
    assert steps_of(server, "js-2") == []
    running = page.evaluate("team.running")
    page.reload()
    page.evaluate(LOAD, [server.token, "js-2"])  # still away: policy, steps and the running episode are kept
    assert page.evaluate("client.status.unsent") == 28
    assert page.evaluate("team.running") == running
    assert (running["t"], running["state"]) == (7, 1)
    page.evaluate("walk(team.running.t, 20, team.running.agent).then(() => team.endEpisode())")
    page.unroute("**/v1/**")
    page.evaluate("client.flush()")
    found = steps_of(server, "js-2")
    assert [row[1] for row in found] == [*range(20), *range(20)]
    assert len({row[0] for row in found}) == 2
    assert counted(server, "js-2") == 2
    until(page, "team.age < 1 && client.status.unsent === 0 && client.status.reachable")
    page.reload()
    page.evaluate(LOAD, [server.token, "js-2"])
    assert page.evaluate("[client.status.unsent, team.running]") == [0, None]


def test_cede_js_tells_again_what_may_have_been_lost(server, open_page):
    """The answer to a report is lost, the service is busy, a token ends: nothing is lost, and nothing counted twice."""
    server("PUT", "/v1/teams/js-3", {"environment": "river"})
    wait_plan(server, "js-3")
    page, seen = open_page(), []

    def lose(route):
        seen.append(route.request.post_data)
        if len(seen) == 1:
            route.fetch()  # it arrives, but the answer does not
            route.abort()
        elif len(seen) == 2:
            route.fulfill(status=429, headers={"retry-after": "0"})
        elif len(seen) == 3:
            route.fulfill(status=401)
        else:
            route.continue_()

    page.evaluate(LOAD, [server.token, "js-3"])
    page.route("**/v1/steps", lose)
    page.evaluate("walk(0, 20, 0).then(() => team.endEpisode())")
    page.evaluate("client.flush()")
    assert len(seen) >= 4
    assert [row[1] for row in steps_of(server, "js-3")] == list(range(20))
    assert counted(server, "js-3") == 1


def test_cede_js_keeps_the_good_from_the_refused(server, open_page):
    server("PUT", "/v1/teams/js-4", {"environment": "river"})
    wait_plan(server, "js-4")
    taken = {"episode": 5, "t": 0, "state": 3, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 3}
    assert server("POST", "/v1/teams/js-4/steps", {"steps": [taken]}).status_code == 200
    page = open_page()
    page.evaluate(LOAD, [server.token, "js-4"])
    page.evaluate("team.begin(5), walk(0, 20, 0).then(() => team.endEpisode())")  # somebody else told another episode 5
    page.evaluate("walk(0, 20, 0).then(() => team.endEpisode())")
    message = page.evaluate("client.flush().then(() => '', (error) => error.message)")
    assert "report: steps[0].state is 0, must be 3, as in the log" in message
    assert counted(server, "js-4") == 1
    assert page.evaluate("client.status.unsent") == 0
    assert "name is 'nobody'" in page.evaluate("client.team('nobody').then(() => '', (error) => error.message)")


# ------------------------------------------------------------------------------------------------- without a horizon


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A service whose teams have runs: boat has told four that ended, barge one that goes on."""
    found = Server(tmp_path_factory.mktemp("endless"), horizon=None, discount=0.9)
    assert found("PUT", "/v1/teams/barge", {"environment": "river"}).status_code == 201
    tell_run(found, 0, 260)
    while found("GET", "/v1/teams/barge").json()["due"] is not None:
        pass
    yield found
    found.close()


def tell_run(server, first, n):
    names = ("state", "prev_agent", "agent", "action", "next_state")
    steps = [
        {"episode": 0, "t": t, **dict(zip(names, (t % 6, t // 50 % 2, (t + 1) // 50 % 2, 0, (t + 1) % 6), strict=True))}
        for t in range(first, first + n)
    ]
    assert server("POST", "/v1/teams/barge/steps", {"steps": steps}).status_code == 200


def test_a_history_that_is_behind_is_asked_for_again(endless, open_page):
    """Who asks while another one is being answered may get nothing yet; of a silent team no event would come."""
    page, asked = open_page(token=endless.token, at=endless), []

    def late(route):
        asked.append(route.request.url)
        if len(asked) > 1:
            return route.continue_()
        answer = route.fetch()
        return route.fulfill(response=answer, json={**answer.json(), "buckets": [], "behind": 260})

    page.route("**/v1/teams/barge/history*", late)
    page.goto(f"{endless.url}/#/team/barge")
    page.get_by_role("heading", name="barge", exact=True).wait_for()
    page.get_by_role("heading", name="Cost of a step", exact=True).wait_for()
    assert len(asked) == 2


def test_runs_are_shown_in_steps(endless, open_page):
    page = open_page("#/team/barge", token=endless.token, at=endless)
    page.get_by_role("heading", name="Cost of a step", exact=True).wait_for()
    history = endless("GET", "/v1/teams/barge/history").json()["buckets"]
    table = page.locator("section[aria-labelledby=chart-cost] table")
    assert table.locator("thead th").first.inner_text() == "Steps"
    rows = table.locator("tbody tr")
    assert [rows.nth(i).locator("th").inner_text() for i in range(rows.count())] == ["1–100", "101–200", "201–260"]
    shown = [float(rows.nth(i).locator("td").first.inner_text()) for i in range(rows.count())]
    assert shown == pytest.approx([one["cost"] / one["steps"] for one in history], abs=6e-5)
    story = page.locator(".story").first.inner_text()
    last = history[-1]
    assert "In the last 60 steps" in story
    assert f"{('left', 'right')[last['control'].index(max(last['control']))]} was in control" in story
    assert f"There were {100 * last['hand_overs'] / 60:.1f} hand-overs per 100 steps" in story
    assert "pisode" not in page.locator("main").inner_text().replace("0 episodes", "")  # but in the health of the service
    assert page.get_by_role("link", name="barge").inner_text().split("\n")[-1].endswith("260 steps")
    page.locator(".facts", has_text="from 260 steps").wait_for()
    assert page.locator("section[aria-labelledby=health]", has_text="steps without a horizon").count() == 1


def test_the_map_of_runs_has_no_time(endless, open_page):
    page = open_page("#/team/barge", token=endless.token, at=endless)
    found = endless("GET", "/v1/teams/barge/map").json()
    page.locator(".map .cell").first.wait_for()
    assert page.get_by_label("Time step").count() == 0
    shown = page.locator(".map .cell .name").all_inner_texts()
    assert shown == [found["agents"][agent] for row in found["rows"] for agent in row["agents"]]
    why = page.locator("section[aria-labelledby=why]")
    why.get_by_role("button", name="Explain").click()  # the place that is given at the beginning
    page.locator(".bars").wait_for()
    explained = endless("GET", "/v1/teams/barge/explain?state=0&prev_agent=0").json()
    assert why.locator(".story").inner_text() == explained["text"]
    page.locator(".map .cell").nth(5).click()
    place = f"state={found['rows'][2]['state']}&prev_agent=1"
    explained = endless("GET", f"/v1/teams/barge/explain?{place}").json()
    why.get_by_text(explained["text"]).wait_for()
    assert "Discounted future cost for each agent" in why.inner_text()
    assert page.get_by_role("alert").count() == 0


def test_the_log_of_a_run_begins_with_its_last_steps_and_goes_on(endless, open_page):
    page = open_page("#/team/barge", token=endless.token, at=endless)
    log = page.locator("section[aria-labelledby=log]")
    log.locator("tbody tr").first.wait_for()
    n = endless("GET", "/v1/teams/barge").json()["episodes"]
    assert log.locator("tbody th").all_inner_texts() == [str(t) for t in range(n - 50, n)]
    assert log.get_by_label("Run").input_value() == "0"
    tell_run(endless, n, 10)
    until(page, f"document.querySelector('.steps tbody tr:last-child th').textContent === '{n + 9}'")
    log.get_by_role("button", name="Earlier steps").click()
    until(page, f"document.querySelector('.steps tbody th').textContent === '{n - 90}'")
    assert log.locator("tbody th").all_inner_texts() == [str(t) for t in range(n - 90, n + 10)]
    log.get_by_role("button", name=f"Why step {n + 9}", exact=True).click()
    page.locator("section[aria-labelledby=why]", has_text="In the log").locator(".bars").wait_for()


def test_nothing_bars_anybody_from_runs(endless, open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page("#/team/barge", token=endless.token, at=endless)
    page.locator(".map .cell").nth(3).click()
    page.locator(".bars").wait_for()
    page.get_by_role("button", name="Earlier steps").wait_for()
    page.locator("section[aria-labelledby=uncertain] table").first.wait_for()
    found = axe.run(page).response
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []
    assert len(found["passes"]) > 10


LOAD_RUN = """async ([token, name]) => {
    const { Client } = await import(new URL("page/cede.js", location.href).href);
    window.client = new Client(location.origin, token, { refresh: 100 });
    window.team = await client.team(name);
    window.walk = async (from, to, agent) => {
        for (let t = from; t < to; t++) {
            const before = agent;
            agent = team.choose(t % 6, before);
            await team.observe(t % 6, before, agent, 0, (t + 1) % 6);
        }
        return agent;
    };
}"""


def runs_of(server, name):
    """The times of the steps of each run, the shortest first."""
    found = {}
    for episode, t, *_ in steps_of(server, name):
        found.setdefault(episode, []).append(t)
    return sorted(found.values(), key=len)


def test_cede_js_tells_steps_of_a_run_as_they_come(endless, open_page):
    endless("PUT", "/v1/teams/js-run", {"environment": "river"})
    plan, page = wait_plan(endless, "js-run"), open_page(at=endless)
    token = endless.make(["decide", "report"], ["js-run"])
    endless.app.state.service.tokens.refresh()
    page.evaluate(LOAD_RUN, [token, "js-run"])
    assert page.evaluate("[team.startAgent, team.horizon, team.version]") == [0, None, plan["version"]]
    agent = page.evaluate("walk(0, 30, 0)")
    page.evaluate("client.flush()")
    found, prev = steps_of(endless, "js-run"), 0
    assert [row[1] for row in found] == list(range(30))  # the run was not ended
    for _, t, before, acted, chosen, version, reason in found:
        assert (before, chosen, reason) == (prev, acted, "plan")
        if version == plan["version"]:
            assert acted == plan["policy"][t % 6][prev]
        prev = acted
    assert found[0][5] == plan["version"]
    assert counted(endless, "js-run") == 30
    until(page, f"team.choose(0, 0), team.version > {plan['version']}")  # a newer policy decides within a run
    page.reload()
    page.evaluate(LOAD_RUN, [token, "js-run"])
    running = page.evaluate("team.running")
    assert (running["t"], running["state"], running["agent"]) == (30, 0, agent)
    page.evaluate("walk(30, 40, team.running.agent).then(() => team.endEpisode()).then(() => walk(0, 5, 0))")
    page.evaluate("client.flush()")
    assert runs_of(endless, "js-run") == [list(range(5)), list(range(40))]
    assert counted(endless, "js-run") == 45
    for call, detail in (
        ("team.choose(0, 0, 0)", "choose: the number of arguments is 3, must be 2: state, prevAgent"),
        ("team.observe(0, 0, 0, 0, 0, 0)", "observe: the number of arguments is 6, must be 5: state"),
        ("team.observe(0, 0, 0, 0, 0)", "observe: state is 0, must be 5, where the step before led"),
        ("team.observe(5, 7, 0, 0, 0)", "observe: prevAgent is 7"),
    ):
        assert detail in page.evaluate(f"() => {{ try {{ {call}; return ''; }} catch (error) {{ return error.message; }} }}")


def test_cede_js_loses_no_step_of_a_run_but_the_refused(endless, open_page):
    endless("PUT", "/v1/teams/js-odd", {"environment": "river"})
    wait_plan(endless, "js-odd")
    taken = {"episode": 5, "t": 7, "state": 3, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 3}
    assert endless("POST", "/v1/teams/js-odd/steps", {"steps": [taken]}).status_code == 200
    page = open_page(at=endless)
    page.evaluate(LOAD_RUN, [endless.token, "js-odd"])
    page.evaluate("team.begin(5), walk(0, 20, 0)")  # somebody else told another step 7
    message = page.evaluate("client.flush().then(() => '', (error) => error.message)")
    assert "report: " in message
    assert [row[1] for row in steps_of(endless, "js-odd")] == [*range(6), 7, *range(9, 20)]  # 6 and 8 do not fit to it
    assert counted(endless, "js-odd") == 18
    assert page.evaluate("client.status.unsent") == 0


def test_cede_js_begins_a_run_before_there_is_a_plan_and_ends_one_in_a_terminal_state(endless, open_page):
    task = {
        "n_states": 3,
        "n_actions": 1,
        "cost_range": [0, 1],
        "agents": ["a", "b"],
        "horizon": None,
        "discount": 0.9,
        "terminal": [2],
    }
    assert endless("PUT", "/v1/environments/pool", {"task": task}).status_code == 201
    planner = endless.app.state.service.planner
    planner.lease, lease = (lambda connection, most=0: []), planner.lease  # nobody plans
    endless("PUT", "/v1/teams/js-end", {"environment": "pool", "fallback": "b"})
    page = open_page(at=endless)
    page.evaluate(LOAD_RUN, [endless.token, "js-end"])
    assert page.evaluate("[team.version, team.choose(0, 0)]") == [0, 1]
    page.evaluate("team.observe(0, 0, 1, 0, 1, {cost: 0.5})")
    planner.lease = lease
    until(page, "team.choose(1, 1), team.version > 0")
    page.evaluate("team.observe(1, 1, 1, 0, 2, {cost: 0.25}).then(() => team.observe(0, 0, 0, 0, 1, {cost: 1}))")
    page.evaluate("client.flush()")
    assert runs_of(endless, "js-end") == [[0], [0, 1]]
    assert counted(endless, "js-end") == 3
