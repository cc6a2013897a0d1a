// A team's decisions: the policy by state, explanations, the log, and uncertainty.

import { amount, capital, html, Name, number, percent, Swatch, words } from "./charts.js";
import { ago, plural } from "./sections.js";

export const MOST_ALONE = 12; // members whose cost is estimated

// The reason of a choice, for a step of the log.
const AUDITION = "This is a trial episode: one member has control throughout, to learn how it acts.";
function reason({ version, reason }) {
  if (reason === "fallback" || version === 0) return "no plan yet: the fallback agent";
  if (!version) return reason === "audition" ? "a trial episode" : reason === "plan" ? "a plan" : "";
  return reason === "audition" ? `plan ${version}, a trial episode` : `plan ${version}`;
}

// An agent, in the colour of the member that has control or will get it.
const Agent = ({ about, agent }) => html`<span class="agent"><${Swatch} index=${about.aim[agent]} /><${Name}>${about.agents[agent]}</${Name}></span>`;

export function Where({ map, asked, chosen, onAsk, onWhy }) {
  if (!map) return "";
  const members = map.members.map((_, i) => i);
  const last = Math.min(asked.first + asked.limit, map.states);
  const word = words(map.unit);
  const timed = map.t !== null;
  return html`<section class="card" aria-labelledby="where">
    <h2 id="where">Who is in control, by state</h2>
    <p class="note">Plan ${map.version}, made ${ago(map.age)} from ${plural(map.episodes, word.one)}.
      ${map.reason === "audition" ? AUDITION : ""} Choose an entry for an explanation. Dashed entries: states without data.</p>
    <div class="tools">
      ${timed ? html`<label class="grow">Time step <b>${map.t}</b>
        <input type="range" min="0" max=${map.steps - 1} value=${asked.t ?? 0} onInput=${(event) => onAsk({ t: Number(event.target.value) })} /></label>` : ""}
      <label>Search states <input type="search" value=${asked.search} onInput=${(event) => onAsk({ search: event.target.value, first: 0 })} /></label>
      <label>Order <select value=${asked.order} onChange=${(event) => onAsk({ order: event.target.value, first: 0 })}>
        <option value="visits">most visited first</option><option value="state">by state</option></select></label>
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label="Table of control by state">
      <table class="map">
        <caption class="unseen">Agent in control by state${timed ? ` at time step ${map.t}` : ""}, and by the previous agent</caption>
        <thead><tr><th scope="col" class="places">State</th>
          <th scope="col">Visits</th>${members.map((i) => html`<th scope="col">after <${Name}>${map.members[i]}</${Name}></th>`)}</tr></thead>
        <tbody>${map.rows.map((row) => html`<tr class=${row.visits ? "" : "unknown"}>
          <th scope="row"><${Name}>${row.name}</${Name}></th>
          <td><span class="amount" style=${{ "--part": map.most_visits ? row.visits / map.most_visits : 0 }}>${number(row.visits, 0)}</span></td>
          ${members.map((prev) => html`<td>${row.terminal ? `the ${word.run} ends` : html`<button type="button" class="cell"
            aria-pressed=${chosen.state === row.state && chosen.prev === prev && (!timed || chosen.t === map.t)}
            onClick=${() => onWhy({ t: map.t, state: row.state, prev })}><${Agent} about=${map} agent=${row.agents[prev]} /><span class="unseen">: why?</span>
              </button>`}</td>`)}
        </tr>`)}</tbody>
      </table>
    </div>
    ${map.states > asked.limit ? html`<div class="tools">
      <button type="button" disabled=${asked.first === 0} onClick=${() => onAsk({ first: Math.max(0, asked.first - asked.limit) })}>Previous<span
        class="unseen"> states</span></button>
      <span>${number(asked.first + 1, 0)} to ${number(last, 0)} of ${number(map.states, 0)}</span>
      <button type="button" disabled=${last >= map.states} onClick=${() => onAsk({ first: asked.first + asked.limit })}>Next<span class="unseen"> states</span></button>
    </div>` : ""}
  </section>`;
}

// The costs of the options as bars: a line for the confidence set, a dot for the estimate.
function Bars({ why, about }) {
  const ends = why.options.flatMap((one) => [one.optimistic, one.plain, one.pessimistic]).filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...ends), Math.max(...ends, 1e-9)];
  const at = (value) => 100 * ((value - low) / (high - low || 1));
  return html`<ul class="bars" aria-hidden="true">${why.options.map((one) => html`<li class=${one.index === why.chosen ? "chosen" : ""}>
    <span><${Agent} about=${about} agent=${one.index} /></span>
    <span class="track"><i class="line" style=${{ left: `${at(one.optimistic)}%`, width: `${Math.max(0, at(one.pessimistic) - at(one.optimistic))}%` }}></i><i
      class="dot" style=${{ left: `${at(one.plain)}%` }}></i></span>
    <b>${amount(one.plain)}</b></li>`)}</ul>`;
}

// The compared quantity.
const ahead = (team) =>
  team.horizon !== null ? "cost of the rest of the episode"
  : team.discount !== null ? "discounted future cost"
  : "future cost, relative to a run from the first state,";

export function Why({ team, map, asked, why, problem, busy, onAsk, onWhy }) {
  if (!map) return "";
  const parts = why ? Object.keys(why.options[0].parts) : [];
  const place = why ? ((team.state_names || [])[why.state] ?? `state ${why.state}`) : "";
  const submit = (event) => {
    event.preventDefault();
    onWhy(asked);
  };
  const whole = (event) => Number(event.target.value);
  return html`<section class="card" aria-labelledby="why">
    <h2 id="why" tabindex="-1">Why</h2>
    <form class="tools" onSubmit=${submit}>
      ${map.t === null ? "" : html`<label>Time step <input type="number" min="0" max=${map.steps - 1} value=${asked.t} required
        onInput=${(event) => onAsk({ t: whole(event) })} /></label>`}
      <label>State <input type="number" min="0" max=${team.n_states - 1} value=${asked.state} required onInput=${(event) => onAsk({ state: whole(event) })} /></label>
      <label>In control before <select value=${String(asked.prev)} onChange=${(event) => onAsk({ prev: whole(event) })}>
        ${map.agents.map((name, i) => html`<option value=${String(i)}>${name}</option>`)}</select></label>
      <button type="submit">Explain</button>
    </form>
    <div aria-live="polite">
    ${problem ? html`<p class="problem">${problem}</p>` : ""}
    ${busy ? html`<p class="note">Computing ...</p>` : ""}
    ${why ? html`<p class="story"><bdi>${why.text}</bdi></p>
      <p class="note">${why.t === null ? "In" : `Step ${why.t}, in`}
        ${" "}<${Name}>${place}</${Name}>, after <${Name}>${map.agents[why.prev_agent]}</${Name}>; from the current counts,
        ${plural(why.episodes, words(why.unit).one)}.${asked.step ? html` In the log: <bdi>${asked.step}</bdi>` : ""}</p>`
      : busy || problem ? "" : html`<p class="note">Choose an entry of the table above or a step of the log, or enter a state.</p>`}
    </div>
    ${why ? html`<${Bars} why=${why} about=${map} />
      <p class="note">${capital(ahead(team))} for each agent: the dot is the estimate${why.bounded
        ? ", the line spans the confidence set" : ""}.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Table of the options">
      <table><caption class="unseen">${capital(ahead(team))}, with each option</caption>
        <thead><tr><th scope="col">Agent</th><th scope="col">Cost</th>${why.bounded ? html`<th scope="col">at best</th><th scope="col">at worst</th>` : ""}
          ${parts.map((name) => html`<th scope="col">${name}</th>`)}<th scope="col">visits</th><th scope="col">visits of outcomes</th></tr></thead>
        <tbody>${why.options.map((one) => html`<tr class=${one.index === why.chosen ? "chosen" : ""}>
          <th scope="row"><${Agent} about=${map} agent=${one.index} />${one.index === why.chosen ? " (chosen)" : ""}</th>
          <td>${amount(one.plain)}</td>${why.bounded ? html`<td>${amount(one.optimistic)}</td><td>${amount(one.pessimistic)}</td>` : ""}
          ${parts.map((name) => html`<td>${amount(one.parts[name])}</td>`)}<td>${number(one.visits, 0)}</td><td>${number(one.outcome_visits, 0)}</td></tr>`)}</tbody>
      </table></div>` : ""}
  </section>`;
}

export function Log({ team, map, log, onEpisode, onEarlier, onSteps, onBefore, onWhy, onDownload }) {
  if (!log.episodes.length) return "";
  const { run } = words(team.unit);
  const state = (s) => (team.state_names || [])[s] ?? `state ${s}`;
  const action = (a) => (team.action_names || [])[a] ?? `action ${a}`;
  const agent = (i) => team.agents[i] ?? `agent ${i}`;
  const chosen = (one) => (one.chosen === undefined ? "" : one.chosen === one.agent ? ", as chosen" : `, but ${agent(one.chosen)} was chosen`);
  const say = (one) => `${agent(one.agent)} acted${chosen(one)}${reason(one) ? ` (${reason(one)})` : ""}.`;
  return html`<section class="card" aria-labelledby="log">
    <h2 id="log">The log</h2>
    <div class="tools">
      <label>${capital(run)} <select value=${String(log.episode)} onChange=${(event) => onEpisode(Number(event.target.value))}>
        ${log.episodes.map((one) => html`<option value=${String(one.episode)}>${one.episode}${one.counted ? "" : " (not complete)"}</option>`)}</select></label>
      <button type="button" disabled=${!log.earlier} onClick=${onEarlier}>Earlier<span class="unseen"> ${run}s</span></button>
      <span class="grow"></span>
      <span>Save all steps: </span>${["csv", "jsonl", "parquet"].map((kind) => html`<button type="button" class="quiet"
        onClick=${() => onDownload(kind)}>${kind}</button>`)}
    </div>
    ${log.begin > 0 ? html`<button type="button" onClick=${onBefore}>Earlier steps</button>` : ""}
    <div class="scroll" tabindex="0" role="region" aria-label="Table of steps">
      <table class="steps"><caption class="unseen">Steps of ${run} ${log.episode}</caption>
        <thead><tr><th scope="col">t</th><th scope="col" class="places">State</th><th scope="col">Before</th><th scope="col">In control</th><th scope="col">Chosen by</th>
          <th scope="col">Action</th><th scope="col" class="places">Next state</th><th scope="col"><span class="unseen">Explanation</span></th></tr></thead>
        <tbody>${log.steps.map((one) => html`<tr class=${one.agent === one.prev_agent ? "" : "switch"}>
          <th scope="row">${one.t}</th><td><${Name}>${state(one.state)}</${Name}></td><td><${Name}>${agent(one.prev_agent)}</${Name}></td>
          <td>${map ? html`<${Agent} about=${map} agent=${one.agent} />` : agent(one.agent)}${one.chosen !== undefined && one.chosen !== one.agent ? html` <span
            class="badge bad">chosen: <${Name}>${agent(one.chosen)}</${Name}></span>` : ""}</td><td>${reason(one)}</td>
          <td><${Name}>${action(one.action)}</${Name}></td><td><${Name}>${state(one.next_state)}</${Name}></td>
          <td><button type="button" class="quiet" onClick=${() => onWhy({ t: one.t, state: one.state, prev: one.prev_agent, step: say(one) })}>Why<span
            class="unseen"> step ${one.t}</span></button></td></tr>`)}</tbody>
      </table>
    </div>
    ${log.more ? html`<button type="button" onClick=${onSteps}>More steps</button>` : ""}
  </section>`;
}

// Estimated costs of the plan and of each member alone. An estimate takes time, so it is computed on request.
export function Alone({ map, alone, onAsk }) {
  if (!map) return "";
  const { rows, busy, problem } = alone;
  const word = words(map.unit);
  const ends = rows.flatMap((one) => [one.low, one.mean, one.high]).filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...ends), Math.max(...ends, 1e-9)];
  const at = (value) => 100 * ((value - low) / (high - low));
  const who = (one) => (one.member === null ? html`<span class="agent">the plan</span>` : html`<${Agent} about=${map} agent=${one.member} />`);
  const warnings = [...new Set(rows.flatMap((one) => one.warnings))];
  const holds = ({ draws, level }) => (draws ? `${percent(level)} of ${number(draws, 0)} posterior draws` : `confidence sets of ${percent(level)}`);
  return html`<section class="card" aria-labelledby="alone">
    <h2 id="alone">Estimated costs</h2>
    <p class="note">Expected cost of one ${rows[0]?.per ?? word.run} with the plan, and with one member always in control.
      ${map.members.length > MOST_ALONE ? ` The first ${MOST_ALONE} members.` : ""}</p>
    <div class="tools"><button type="button" disabled=${busy} onClick=${onAsk}>${rows.length ? "Estimate again" : "Estimate"}</button></div>
    <div aria-live="polite">${problem ? html`<p class="problem">${problem}</p>` : ""}${busy ? html`<p class="note">Computing ...</p>` : ""}</div>
    ${rows.length ? html`<ul class="bars" aria-hidden="true">${rows.map((one) => html`<li><span>${who(one)}</span>
      <span class="track"><i class="line" style=${{ left: `${at(one.low)}%`, width: `${at(one.high) - at(one.low)}%` }}></i><i
        class="dot" style=${{ left: `${at(one.mean)}%` }}></i></span><b>${word.form(one.mean)}</b></li>`)}</ul>
      <div class="scroll" tabindex="0" role="region" aria-label="Table of estimated costs">
      <table><caption class="unseen">Estimated costs</caption>
        <thead><tr><th scope="col">In control</th><th scope="col">Cost</th><th scope="col">from</th><th scope="col">to</th></tr></thead>
        <tbody>${rows.map((one) => html`<tr><th scope="row">${who(one)}</th>
          <td>${word.form(one.mean)}</td><td>${word.form(one.low)}</td><td>${word.form(one.high)}</td></tr>`)}
        </tbody></table></div>
      <p class="note">From ${plural(rows[0].episodes, word.one)} of this team and the counts of its environment; intervals: ${holds(rows[0])}; ${word.run}s
        start ${rows[0].starts}.</p>
      ${warnings.map((one) => html`<p class="note">Note: <bdi>${one}</bdi>.</p>`)}` : ""}
  </section>`;
}

export function Uncertain({ summary }) {
  if (!summary) return "";
  const groups = summary.groups.filter((one) => one.cost);
  const from = summary.unit === "steps" ? `By where a run starts: ${summary.cost_of}` : "Cost of an episode that starts here";
  const widest = Math.max(1e-9, ...groups.map((one) => one.cost[1]));
  return html`<section class="card" aria-labelledby="uncertain">
    <h2 id="uncertain">Uncertainty</h2>
    ${summary.warnings.map((one) => html`<p class="problem"><bdi>${one}</bdi></p>`)}
    ${summary.widest.length ? html`<p
      class="note">Wide beliefs, ordered by their effect on the cost. Width 0: certain; 2 or more: no information.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Table of uncertainty"><table><caption class="unseen">Uncertainty</caption>
        <thead><tr><th scope="col">Layer</th><th scope="col" class="places">Where</th><th scope="col">Visits</th><th scope="col">Width</th>
          <th scope="col">Effect on cost</th></tr></thead>
        <tbody>${summary.widest.map((one) => html`<tr><th scope="row"><${Name}>${one.layer}</${Name}></th><td><${Name}>${one.place}</${Name}></td>
          <td>${number(one.visits, 0)}</td>
          <td><span class="amount" style=${{ "--part": Math.min(1, one.width / 2) }}>${number(one.width)}</span></td>
          <td>${amount(one.matters)}</td></tr>`)}</tbody></table></div>`
    : html`<p class="note">${summary.episodes ? "This learner has no confidence sets, or they are all narrow." : "No data yet."}</p>`}
    ${groups.length ? html`<h3>${from}</h3>
      <p class="note">Range of the confidence set, and the shares of control in the plan${summary.unit === "steps" ? "" : " over all times"}.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Table of costs by state"><table><caption class="unseen">${from}</caption>
        <thead><tr><th scope="col">States</th><th scope="col">Visits</th><th scope="col"
          class="places">Cost between</th>${summary.agents.map((name) => html`<th scope="col"><${Name}>${name}</${Name}></th>`)}</tr></thead>
        <tbody>${groups.map((one) => html`<tr><th scope="row"><${Name}>${one.name}</${Name}></th><td>${number(one.visits, 0)}</td>
          <td><span class="range"><i style=${{ left: `${(100 * Math.max(0, one.cost[0])) / widest}%`, right: `${100 - (100 * one.cost[1]) / widest}%` }}></i>
            </span> ${amount(one.cost[0])} and ${amount(one.cost[1])}</td>
          ${one.shares.map((share) => html`<td>${percent(share)}</td>`)}</tr>`)}</tbody></table></div>` : ""}
  </section>`;
}
