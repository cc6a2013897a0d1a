// The dashboard: one state, one function that draws it, and the functions that change it.

import { render } from "./vendor/preact.mjs";
import { download, get, listen, path, setToken, takeToken, token } from "./api.js";
import { html, Name } from "./charts.js";
import { Alone, Log, MOST_ALONE, Uncertain, Where, Why } from "./decisions.js";
import { Charts, Health, Story, Teams } from "./sections.js";

const PAGE = 50;
const nothing = () => ({
  team: null, history: null, sizes: { chosen: "", before: null }, summary: null, map: null,
  asked: { t: null, search: "", first: 0, limit: 50, order: "visits" },
  why: null, place: { t: 0, state: 0, prev: 0 }, whyProblem: "", busy: false,
  alone: { rows: [], busy: false, problem: "" },
  log: { episodes: [], episode: null, steps: [], begin: 0, newest: false, earlier: false, more: false },
});
const state = {
  signed: Boolean(token()), problem: "", live: "off", environments: [], health: null, open: false,
  teams: { list: [], search: "", environment: "", stack: [], after: "", more: false },
  where: { kind: "", name: "" }, ...nothing(),
};

let waiting = false;
function update(change) {
  Object.assign(state, change);
  if (waiting) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    render(html`<${App} />`, document.getElementById("root"));
  });
}

function failed(error) {
  if (error.status === 401) {
    setToken("");
    update({ signed: false, problem: "This token is not valid. Enter another one." });
  } else if (error.name !== "AbortError") {
    update({ problem: error.message });
  }
}

// Calls a function at most once in some milliseconds; the last call is never dropped.
function calmly(work, ms) {
  let last = 0;
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      last = Date.now();
      work(...given);
    }, Math.max(0, last + ms - Date.now()));
  };
}

// Fetches data for the current view. An answer that arrives after the view has changed is dropped.
async function fetched(where, query, use) {
  const here = state.where;
  try {
    const found = await get(where, query);
    if (here === state.where) {
      if (state.problem) state.problem = "";
      use(found);
    }
  } catch (error) {
    if (here === state.where) failed(error);
  }
}

// ---------------------------------------------------------------------------------------------- loading

const own = (...more) => `v1/${state.where.kind}s/${path(state.where.name, ...more)}`;
const isTeam = () => state.where.kind === "team";

async function loadLists() {
  try {
    const found = await get("v1/environments", { limit: 1000 });
    update({ environments: found.environments });
  } catch (error) {
    if (error.status !== 403) return failed(error); // a token for some teams may not list environments
  }
  await loadTeams();
  if (!state.where.kind) {
    const [first] = state.environments;
    const [team] = state.teams.list;
    if (first) location.replace(`#/environment/${encodeURIComponent(first.name)}`);
    else if (team) location.replace(`#/team/${encodeURIComponent(team.name)}`);
  }
}

async function loadTeams() {
  const { search, environment, after } = state.teams;
  try {
    const { teams } = await get("v1/teams", { search, environment, after, limit: PAGE + 1 });
    if (search !== state.teams.search || after !== state.teams.after) return;
    update({ teams: { ...state.teams, list: teams.slice(0, PAGE), more: teams.length > PAGE } });
  } catch (error) {
    failed(error);
  }
}

const loadHistory = () => state.where.kind && fetched(own("history"), { size: state.sizes.chosen, before: state.sizes.before }, (history) => {
  update({ history });
  // The answer may be behind while another request sums up, and a silent team sends no event: so ask again. A run is always a few steps
  // behind, which is not urgent.
  if (history.behind > (history.unit === "steps" ? 1000 : 0)) setTimeout(loadHistory, 300);
  else if (history.behind) refreshHistory();
});
const loadTeam = () => isTeam() && fetched(own(), {}, (team) => update({ team }));
const loadMap = () => isTeam() && fetched(own("map"), state.asked, (map) => update({ map }));
const loadSummary = () => isTeam() && fetched(own("summary"), {}, (summary) => update({ summary }));
const loadHealth = () => state.signed && get("v1/health").then((health) => update({ health }), failed);

function loadEpisodes(before) {
  if (!isTeam()) return;
  fetched(own("episodes"), { before, limit: PAGE }, ({ episodes, unit }) => {
    const listed = before === undefined ? episodes : [...state.log.episodes, ...episodes];
    const same = listed.some((one) => one.episode === state.log.episode);
    update({ log: { ...state.log, episodes: listed, unit, earlier: episodes.length === PAGE } });
    if (!same && listed.length) loadSteps(listed[0].episode);
    else if (same && unit === "steps" && state.log.newest) loadSteps(state.log.episode); // a run goes on
  });
}

// The first steps of an episode, the last ones of a run.
function loadSteps(episode) {
  const last = state.log.episodes.find((one) => one.episode === episode)?.last ?? -1;
  const since = state.log.unit === "steps" ? Math.max(0, last + 1 - PAGE) : 0;
  fetched(own("episodes", episode, "steps"), { since, limit: PAGE + 1 }, ({ steps }) =>
    update({ log: { ...state.log, episode, steps: steps.slice(0, PAGE), begin: since, newest: true, more: steps.length > PAGE } }));
}

function moreSteps() {
  const { episode, steps } = state.log;
  fetched(own("episodes", episode, "steps"), { since: steps.at(-1).t + 1, limit: PAGE + 1 }, (found) =>
    update({ log: { ...state.log, steps: [...steps, ...found.steps.slice(0, PAGE)], newest: false, more: found.steps.length > PAGE } }));
}

function stepsBefore() {
  const { episode, steps, begin } = state.log;
  const since = Math.max(0, begin - PAGE);
  fetched(own("episodes", episode, "steps"), { since, limit: begin - since }, (found) =>
    update({ log: { ...state.log, steps: [...found.steps.filter((one) => one.t < begin), ...steps], begin: since, newest: false } }));
}

async function explain(place) {
  const { where } = state;
  update({ place, why: null, busy: true, whyProblem: "" });
  document.getElementById("why")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  try {
    const t = state.team?.horizon === null ? null : place.t;
    const why = await get(own("explain"), { t, state: place.state, prev_agent: place.prev });
    if (where === state.where && place === state.place) update({ why, busy: false });
  } catch (error) {
    if (where === state.where && place === state.place) update({ busy: false, whyProblem: error.message });
  }
}

// Estimates the plan, then every member alone, one by one.
async function estimate() {
  const { where, map } = state;
  const rows = [];
  const show = (change) => where === state.where && update({ alone: { rows: [...rows], busy: true, problem: "", ...change } });
  show({});
  try {
    for (const member of [null, ...map.members.keys()].slice(0, 1 + MOST_ALONE)) {
      if (where !== state.where) return;
      rows.push({ member, ...(await get(own("estimate"), member === null ? {} : { policy: map.agents[member] })) });
      show({});
    }
    show({ busy: false });
  } catch (error) {
    show({ busy: false, problem: error.message });
  }
}

// ---------------------------------------------------------------------------------------------- navigation and events

function go() {
  const [kind, name] = location.hash.slice(2).split("/", 2).map(decodeURIComponent);
  if (kind !== "team" && kind !== "environment") return;
  update({ where: { kind, name }, open: false, problem: "", ...nothing() });
  document.title = `${name}: who is in control`;
  loadHistory();
  loadTeam();
  loadMap();
  loadSummary();
  loadEpisodes();
  document.getElementById("title")?.focus({ preventScroll: false });
}

const refreshLists = calmly(loadTeams, 3000);
const refreshHistory = calmly(loadHistory, 1000);
const refreshTeam = calmly(() => {
  loadTeam();
  loadMap();
  loadSummary();
  loadEpisodes();
}, 2000);

function onEvent(kind, data) {
  refreshLists();
  const mine = isTeam() && (kind === "missed" || data.team === state.where.name);
  if (state.sizes.before === null && (mine || state.where.kind === "environment")) refreshHistory();
  if (mine && kind !== "counted") refreshTeam();
}

let stop = null;
function begin() {
  stop = new AbortController();
  loadLists();
  loadHealth();
  go();
  listen(onEvent, (live) => {
    if (live === "live" && state.live === "broken") loadLists().then(go);
    update({ live });
  }, stop.signal);
}

function signIn(event) {
  event.preventDefault();
  setToken(new FormData(event.target).get("token").trim());
  update({ signed: true, problem: "" });
  begin();
}

function signOut() {
  stop?.abort();
  setToken("");
  location.reload();
}

const ask = calmly(loadMap, 150);
const find = calmly(loadTeams, 200);
const teamsAre = (change) => update({ teams: { ...state.teams, after: "", stack: [], ...change } });
const on = {
  search: (search) => (teamsAre({ search }), find()),
  environment: (environment) => (teamsAre({ environment }), loadTeams()),
  page(way) {
    const { list, stack, after } = state.teams;
    if (way > 0) teamsAre({ after: list.at(-1).name, stack: [...stack, after] });
    else teamsAre({ after: stack.at(-1), stack: stack.slice(0, -1) });
    loadTeams();
  },
  size: (chosen) => (update({ sizes: { chosen, before: null } }), loadHistory()),
  before: (before) => (update({ sizes: { chosen: before === null ? state.sizes.chosen : String(state.history.size), before } }), loadHistory()),
  map: (change) => (update({ asked: { ...state.asked, ...change } }), ask()),
  place: (change) => update({ place: { ...state.place, ...change, step: undefined } }),
  save: (kind) => download(own("steps"), { format: kind }, `${state.where.name}.${kind}`).catch(failed),
};

// ---------------------------------------------------------------------------------------------- drawing

const LIVE = { live: "live", broken: "reconnecting ...", off: "not connected" };

function App() {
  if (!state.signed) return html`<${SignIn} />`;
  const { where, history, team, map } = state;
  const plan = map ? { version: map.version, age: map.age, episodes: map.episodes } : null;
  return html`<a class="skip" href="#title" onClick=${(event) => (event.preventDefault(), document.getElementById("title")?.focus())}>Skip to content</a>
    <header>
      <a class="brand" href="./"><img src="page/icon.svg" alt="" width="28" height="28" /> cede</a>
      <span class=${`badge ${state.live === "live" ? "good" : "bad"}`} role="status">${LIVE[state.live]}</span>
      <span class="grow"></span>
      <button type="button" class="only-small" aria-expanded=${state.open} onClick=${() => update({ open: !state.open })}>Teams</button>
      <button type="button" class="quiet" onClick=${signOut}>Sign out</button>
    </header>
    <div class=${state.open ? "layout open" : "layout"}>
      <${Teams} teams=${state.teams} environments=${state.environments} where=${where} onSearch=${on.search} onEnvironment=${on.environment} onPage=${on.page} />
      <main>
        ${state.problem ? html`<p class="problem" role="alert">${state.problem}</p>` : ""}
        ${where.kind ? html`<div class="title"><p class="kind">${where.kind === "team" ? "Team" : "All teams of environment"}</p><h1 id="title" tabindex="-1">
          <${Name}>${where.name}</${Name}></h1></div>`
          : html`<h1 id="title" tabindex="-1">Who is in control</h1>${state.environments.length ? "" : html`<p
            class="story">There is no team yet. Make an environment and a team first.</p>`}`}
        ${history ? html`<section class="card" aria-label="At a glance"><${Story} history=${history} plan=${plan} whole=${where.kind === "environment"} /></section>
          <${Charts} history=${history} sizes=${state.sizes} onSize=${on.size} onBefore=${on.before} />` : where.kind ? html`<p class="note">Loading ...</p>` : ""}
        ${team ? html`<${Where} map=${map} asked=${state.asked} chosen=${state.place} onAsk=${on.map} onWhy=${explain} />
          <${Why} team=${team} map=${map} asked=${state.place} why=${state.why} problem=${state.whyProblem} busy=${state.busy} onAsk=${on.place} onWhy=${explain} />
          <${Log} team=${team} map=${map} log=${state.log} onEpisode=${loadSteps} onEarlier=${() => loadEpisodes(state.log.episodes.at(-1).episode)}
            onSteps=${moreSteps} onBefore=${stepsBefore} onWhy=${explain} onDownload=${on.save} />
          <${Alone} map=${map} alone=${state.alone} onAsk=${estimate} />
          <${Uncertain} summary=${state.summary} />` : ""}
        ${where.kind === "environment" ? html`<p
          class="note">Choose a team to see its policy by state, and the reasons.</p>` : ""}
        <${Health} health=${state.health} live=${state.live} />
      </main>
    </div>`;
}

const SignIn = () => html`<main class="sign-in">
  <h1 id="title"><img src="page/icon.svg" alt="" width="36" height="36" /> cede</h1>
  <p>cede learns who should be in control. This page shows who is in control, the cost, and the reasons.</p>
  ${state.problem ? html`<p class="problem" role="alert">${state.problem}</p>` : ""}
  <form onSubmit=${signIn}>
    <label class="wide">Token <input name="token" type="password" autocomplete="off" required autofocus spellcheck="false" /></label>
    <p class="note">It needs the scope read: <code>cede token create --scope read</code>. It is stored until this tab is closed.</p>
    <button type="submit">Show</button>
  </form>
</main>`;

takeToken();
state.signed = Boolean(token());
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) location.reload();
  else go();
});
setInterval(loadHealth, 5000);
if (state.signed) begin();
update({});
