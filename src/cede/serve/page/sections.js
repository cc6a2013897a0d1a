// A team or an environment over time: a summary in sentences, charts, the list of teams, and health.

import { capital, Chart, html, Name, number, percent, Swatch, words } from "./charts.js";

export const plural = (n, word) => `${number(n, 0)} ${word}${n === 1 ? "" : "s"}`;
const OTHERS = "all others";

// Sums buckets of a history.
function total(buckets) {
  const sum = { episodes: 0, steps: 0, cost: 0, switches: 0, hand_overs: 0, overrides: 0, unpriced: 0, control: [], parts: {}, pairs: new Map() };
  for (const one of buckets) {
    for (const name of ["episodes", "steps", "cost", "switches", "hand_overs", "overrides", "unpriced"]) sum[name] += one[name];
    one.control.forEach((n, i) => (sum.control[i] = (sum.control[i] || 0) + n));
    for (const [name, value] of Object.entries(one.parts)) sum.parts[name] = (sum.parts[name] || 0) + value;
    for (const [giver, taker, n] of one.pairs) sum.pairs.set(`${giver} ${taker}`, (sum.pairs.get(`${giver} ${taker}`) || 0) + n);
  }
  return sum;
}

const ago = (seconds) =>
  seconds === null || seconds === undefined
    ? "never"
    : seconds < 90 ? `${number(seconds, 0)} s ago`
    : seconds < 5400 ? `${number(seconds / 60, 0)} min ago`
    : seconds < 172800 ? `${number(seconds / 3600, 0)} h ago`
    : `${number(seconds / 86400, 0)} days ago`;
export { ago };

const Fact = ({ title, value, more }) => html`<div class="fact"><dt>${title}</dt><dd><b>${value}</b><span>${more}</span></dd></div>`;

// The summary: who is in control, the cost, and how both changed.
export function Story({ history, plan, whole }) {
  const { buckets, agents } = history;
  const word = words(history.unit);
  const amount = word.form;
  if (!buckets.length) {
    const next = plan ? `Plan ${plan.version} is ready.` : `Report the first ${word.one} to see it here.`;
    return html`<p class="story">No ${word.one} is counted yet. ${next}</p>`;
  }
  const part = Math.max(1, Math.floor(buckets.length / 5));
  const now = total(buckets.slice(-part));
  const then = total(buckets.slice(0, part));
  const shares = now.control.map((n) => n / now.steps);
  const first = shares.indexOf(Math.max(...shares));
  const cost = now.cost / now.episodes;
  const before = then.cost / then.episodes;
  const turns = (sum) => number((word.of * sum.hand_overs) / sum.episodes, 1);
  const here = total(buckets).episodes;
  const shown = here === history.total ? "all are shown" : `${number(here, 0)} are shown`;
  const average = now.episodes > 1 ? " on average" : "";
  const compared = buckets.length > 1 ? `${average}; in the first ${then.episodes === 1 ? "one" : number(then.episodes, 0)} it was ${amount(before)}` : average;
  const size = now.episodes === 1 ? `the last ${word.one}` : `the last ${number(now.episodes, 0)} ${word.many}`;
  return html`<div>
    <p class="story">
      In ${size}${whole ? " of all teams" : ""} <${Name}>${agents[first] ?? OTHERS}</${Name}> was in control <b>${percent(shares[first])}</b> of the time.
      ${" "}${capital(word.a)} cost <b>${amount(cost)}</b>${compared}.
      ${" "}There were <b>${turns(now)}</b> hand-overs ${word.per}.
      ${now.unpriced ? ` ${plural(now.unpriced, "hand-over")} should not be possible by the task; their cost is not known, and not included.` : ""}
    </p>
    <div class="share" role="img" aria-label=${`Share of control: ${shares.map((one, i) => `${agents[i] ?? OTHERS} ${percent(one)}`).join(", ")}`}>
      ${shares.map((one, i) => html`<span style=${{ flexGrow: one }} class=${one > 0 ? "part" : "none"}><i style=${{ background: `var(--agent-${i % 8})` }}></i></span>`)}
    </div>
    <ul class="legend">${shares.map((one, i) => html`<li><${Swatch} index=${i} /> <${Name}>${agents[i] ?? OTHERS}</${Name}> <b>${percent(one)}</b></li>`)}</ul>
    <dl class="facts">
      <${Fact} title=${`Cost of ${word.a}`} value=${amount(cost)}
        more=${Object.entries(now.parts).map(([name, sum]) => `${name} ${amount(sum / now.episodes)}`).join(" · ")} />
      <${Fact} title=${`Hand-overs ${word.per}`} value=${turns(now)} more=${handed(now, agents)} />
      <${Fact} title=${capital(word.many)} value=${number(history.total, 0)}
        more=${history.behind ? `${number(history.behind, 0)} more are being summed` : shown} />
      ${whole ? "" : html`<${Fact} title="Plan" value=${plan ? `No. ${plan.version}` : "none yet"}
        more=${plan ? `made ${ago(plan.age)}, from ${plural(plan.episodes, word.one)}` : "the fallback agent acts"} />`}
    </dl>
  </div>`;
}

// The most frequent hand-over, in words.
function handed(sum, agents) {
  const found = [...sum.pairs].sort((one, other) => other[1] - one[1])[0];
  if (!found) return "no hand-over";
  const [giver, taker] = found[0].split(" ").map((i) => agents[i] ?? OTHERS);
  return `mostly ${giver} to ${taker}`;
}

export function Charts({ history, sizes, onSize, onBefore }) {
  const { buckets, agents } = history;
  if (!buckets.length) return "";
  const x = buckets.map((one) => one.episode + 1);
  const word = words(history.unit);
  const steps = history.unit === "steps";
  const last = (one) => one.episode + (steps ? one.episodes : history.size);
  const rows = buckets.map((one) => (history.size === 1 ? number(one.episode + 1, 0) : `${number(one.episode + 1, 0)}–${number(last(one), 0)}`));
  const mean = (name, of = 1) => buckets.map((one) => (of * one[name]) / one.episodes);
  const part = (name) => buckets.map((one) => one.parts[name] / one.episodes);
  const per = history.size === 1 ? "Each point is one episode." : `Each point is the mean of ${steps ? "at most " : ""}${number(history.size, 0)} ${word.many}.`;
  const first = history.first;
  return html`<div>
    <div class="tools">
      <label>${capital(word.many)} in a point ${" "}
        <select value=${sizes.chosen} onChange=${(event) => onSize(event.target.value)}>
          <option value="">automatic</option>
          ${(steps ? [100, 1000, 10000, 100000] : [1, 10, 100, 1000, 10000]).map((n) => html`<option value=${String(n)}>${number(n, 0)}</option>`)}
        </select>
      </label>
      <button type="button" disabled=${!history.earlier} onClick=${() => onBefore(first)}>Earlier</button>
      <button type="button" disabled=${sizes.before === null} onClick=${() => onBefore(null)}>Newest</button>
      <span class="note">${per}</span>
    </div>
    <div class="charts">
      <${Chart} id="chart-control" title="Who is in control"
        note="Share of the steps of each agent." x=${x} rows=${rows} unit=${history.unit} form=${percent} tick=${percent} range=${() => [0, 1]}
        series=${agents.map((name, i) => ({ name: name ?? OTHERS, index: i, values: buckets.map((one) => one.control[i] / one.steps) }))} />
      <${Chart} id="chart-cost" title=${`Cost of ${word.a}`} note="Total, and its parts." x=${x} rows=${rows} unit=${history.unit} form=${word.form}
        series=${[{ name: "total", values: mean("cost") }, ...["environment", "control", "switching"].map((name) => ({ name, values: part(name) }))]} />
      <${Chart} id="chart-switches" title="Switches, hand-overs"
        note=${`In ${steps ? "100 steps" : "an episode"}. Override: another agent acted than the chosen one.`} x=${x} rows=${rows} unit=${history.unit}
        series=${["switches", "hand_overs", "overrides"].map((name) => ({ name: name.replace("_", "-"), values: mean(name, word.of) }))} />
    </div>
  </div>`;
}

export function Teams({ teams, environments, where, onSearch, onEnvironment, onPage, onAll }) {
  return html`<nav aria-label="Environments and teams">
    ${environments.length ? html`<h2>Environments</h2>
      <ul class="list">${environments.map((one) => html`<li>
        <a href=${`#/environment/${encodeURIComponent(one.name)}`} aria-current=${where.kind === "environment" && where.name === one.name ? "page" : undefined}>
          <${Name}>${one.name}</${Name}><span>${plural(one.teams, "team")}</span>
        </a></li>`)}</ul>` : ""}
    <h2>Teams</h2>
    <label class="wide">Search teams <input type="search" value=${teams.search} onInput=${(event) => onSearch(event.target.value)} /></label>
    ${environments.length > 1 ? html`<label class="wide">Of environment
      <select value=${teams.environment} onChange=${(event) => onEnvironment(event.target.value)}>
        <option value="">all</option>${environments.map((one) => html`<option value=${one.name}>${one.name}</option>`)}
      </select></label>` : ""}
    <ul class="list">${teams.list.map((one) => html`<li>
      <a href=${`#/team/${encodeURIComponent(one.name)}`} aria-current=${where.kind === "team" && where.name === one.name ? "page" : undefined}>
        <${Name}>${one.name}</${Name}><span>${plural(one.episodes, words(one.unit).one)}</span>
      </a></li>`)}</ul>
    ${teams.list.length ? "" : html`<p class="note">No team found.</p>`}
    <div class="tools">
      <button type="button" disabled=${!teams.stack.length} onClick=${() => onPage(-1)}>Previous<span class="unseen"> teams</span></button>
      <button type="button" disabled=${!teams.more} onClick=${() => onPage(1)}>Next<span class="unseen"> teams</span></button>
    </div>
  </nav>`;
}

export function Health({ health, live }) {
  if (!health) return "";
  const bad = Object.entries(health.ready).filter(([, works]) => !works).map(([part]) => part);
  const full = health.waiting_steps / health.most_waiting_steps;
  const rows = [
    ["Parts", bad.length ? `not working: ${bad.join(", ")}` : "all work"],
    ["Steps queued for writing", `${number(health.waiting_steps, 0)} of at most ${number(health.most_waiting_steps, 0)}`],
    ["Teams due for a plan", health.due ? `${number(health.due, 0)}, the oldest for ${ago(health.oldest_due).replace(" ago", "")}` : "none"],
    ["Newest plan", ago(health.newest_plan)],
    ["Plans in memory", number(health.plans_in_memory, 0)],
    ["Errors of writer and planner", number(health.failures, 0)],
    ["Service", `${plural(health.environments, "environment")}, ${plural(health.teams, "team")}, ${plural(health.episodes, "episode")}${health.steps
      ? `, ${plural(health.steps, "step")} without a horizon` : ""}; cede ${health.version}`],
  ];
  const said = bad.length ? "a part does not work" : full >= 0.5 ? "the queue is filling up" : live !== "live" ? "not connected" : "healthy";
  const well = !bad.length && full < 0.5 && live === "live";
  return html`<section class="card" aria-labelledby="health">
    <h2 id="health">Health <span
      class=${well ? "badge good" : "badge bad"}>${said}</span></h2>
    <table class="pairs"><caption class="unseen">Health</caption><tbody>
      ${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}
    </tbody></table>
  </section>`;
}
