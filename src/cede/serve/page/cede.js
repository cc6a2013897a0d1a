// A client of a cede service for browsers, used like a learner: choose, observe, endEpisode. One module, no dependencies.
//
//   const client = new Client("https://control.example/", token);
//   const team = await client.team("truck-17");
//   let agent = team.startAgent;
//   for (let t = 0; t < team.horizon; t++) {
//     const before = agent;
//     agent = team.choose(t, state, before);
//     ...
//     await team.observe(t, state, before, agent, action, nextState);
//   }
//   await team.endEpisode();
//
// Without a horizon (`team.horizon` is null), t is left out: choose(state, before), observe(state, before, agent, ...). Every step is
// sent and counted at once; endEpisode is needed only if a run breaks off and another one begins in another state.
//
// Decisions are made locally, by a copy of the policy that is refreshed in the background. While the service is unreachable, the last
// copy decides, `team.age` is the time since its last confirmation, and observed steps are stored in IndexedDB until they are sent,
// also across a reload of the page. The key of a step is team, episode and t: sending it twice changes nothing.

const BATCH = 1000; // steps of a request
const GATHER = 100; // milliseconds in which steps are gathered
const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 30000;
const TRY_AGAIN = new Set([401, 403, 404, 408, 421, 425, 429, 500, 502, 503, 504]); // nothing is thrown away for a token, a host or a prefix
const KEEPALIVE = 60000; // bytes that browsers send when a page is left

function fail(owner, place, got, expected) {
  throw new RangeError(`${owner}: ${place} is ${typeof got === "string" ? JSON.stringify(got) : String(got)}, must be ${expected}`);
}

function index(owner, place, value, size) {
  if (!Number.isInteger(value) || value < 0 || (size !== undefined && value >= size)) {
    fail(owner, place, value, size === undefined ? "an integer from 0 on" : `an integer from 0 to ${size - 1}`);
  }
  return value;
}

// ---------------------------------------------------------------------------------------------- storage

const wanted = (request) =>
  new Promise((done, wrong) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => wrong(request.error);
  });

// Two tables of IndexedDB: steps that are not sent yet, and the policy and current episode of each team. If the browser has no
// storage (as in some private windows), they are in memory, and `lasting` is false.
class Kept {
  static async open(name) {
    const kept = new Kept();
    kept.memory = { unsent: new Map(), teams: new Map() };
    kept.lasting = true;
    try {
      const request = indexedDB.open(`cede ${name}`, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("unsent", { keyPath: "key" }).createIndex("team", "team");
        request.result.createObjectStore("teams", { keyPath: "team" });
      };
      kept.database = await wanted(request);
    } catch {
      kept.lasting = false;
    }
    return kept;
  }

  async run(mode, table, work) {
    const change = this.database.transaction(table, mode, { durability: "strict" });
    const result = await work(change.objectStore(table));
    if (mode === "readwrite") {
      await new Promise((done, wrong) => {
        change.oncomplete = done;
        change.onerror = change.onabort = () => wrong(change.error);
      });
    }
    return result;
  }

  put(table, values) {
    if (!this.lasting) {
      for (const one of values) this.memory[table].set(one.key ?? one.team, one);
      return Promise.resolve();
    }
    return this.run("readwrite", table, (store) => values.forEach((one) => store.put(one)));
  }

  remove(keys) {
    if (this.lasting) return this.run("readwrite", "unsent", (store) => keys.forEach((key) => store.delete(key)));
    keys.forEach((key) => this.memory.unsent.delete(key));
    return Promise.resolve();
  }

  async team(name) {
    return this.lasting ? this.run("readonly", "teams", (store) => wanted(store.get(name))) : this.memory.teams.get(name);
  }

  async unsent(team) {
    return this.lasting ? this.run("readonly", "unsent", (store) => wanted(store.index("team").getAll(team))) : [];
  }
}

// ---------------------------------------------------------------------------------------------- the client

/** A client of a service. It sends the event "change" when `status` changes.
 *
 * url: the address of the service. token: one that may decide and report. refresh: milliseconds between two refreshes of policies.
 * timeout: milliseconds for a request.
 */
export class Client extends EventTarget {
  #token;
  #refresh;
  #timeout;
  #kept = null;
  #teams = new Map();
  #unsent = new Map();
  #refused = [];
  #sending = null;
  #timers = new Set();
  #wake = () => {};
  #reachable = null;
  #problem = "";
  #closed = false;

  constructor(url, token, { refresh = 2000, timeout = 10000 } = {}) {
    super();
    if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) fail("Client", "token", "odd", "as `cede token create` printed it");
    this.url = new URL(url, globalThis.location?.href);
    if (!this.url.pathname.endsWith("/")) this.url.pathname += "/";
    if (!/^https?:$/.test(this.url.protocol)) fail("Client", "url", String(url), "the address of a service");
    this.#token = token;
    this.#refresh = refresh;
    this.#timeout = timeout;
    this.#timers.add(setInterval(() => this.#look(), refresh));
    globalThis.addEventListener?.("online", () => this.#wake());
    globalThis.addEventListener?.("pagehide", () => this.#leave());
  }

  /** State of the client: unsent (steps and ends), refused (texts), reachable (null: not known yet), problem, lasting. */
  get status() {
    const lasting = this.#kept?.lasting ?? null;
    return { unsent: this.#unsent.size, refused: [...this.#refused], reachable: this.#reachable, problem: this.#problem, lasting };
  }

  /** Use another token from now on. */
  renew(token) {
    this.#token = token;
    this.#wake();
  }

  /** Return a team as soon as it can decide: its policy was downloaded, or is stored. */
  async team(name) {
    if (typeof name !== "string" || !name) fail("Client.team", "name", name, "the name of a team");
    this.#kept ??= Kept.open(this.url.href).then((kept) => (this.#kept = kept));
    const kept = await this.#kept;
    if (!this.#teams.has(name)) {
      const team = new Team(this, name, kept, (records) => this.#queue(records));
      this.#teams.set(name, team);
      for (const one of await kept.unsent(name)) this.#unsent.set(one.key, one);
      await team.open();
      this.#changed();
      this.#work();
    }
    return this.#teams.get(name);
  }

  /** Wait until all steps are sent. Fails after some milliseconds, or if the service refused a report. */
  async flush(ms = 30000) {
    const until = Date.now() + ms;
    this.#wake();
    while (this.#unsent.size) {
      if (Date.now() > until) throw new Error(`flush: ${this.#unsent.size} steps are not sent yet (${this.#problem || "in time"})`);
      await new Promise((done) => setTimeout(done, 20));
    }
    const refused = this.#refused.splice(0);
    if (refused.length) throw new Error(refused.join("; "));
  }

  /** Stop. Unsent steps stay stored. */
  close() {
    this.#closed = true;
    this.#timers.forEach(clearInterval);
    this.#wake();
  }

  /** Send a request; return the answer. Throws TypeError or TimeoutError if the service is unreachable. */
  async ask(method, where, body, more = {}) {
    const headers = { authorization: `Bearer ${this.#token}`, ...more.headers };
    if (body !== undefined) headers["content-type"] = "application/json";
    const signal = AbortSignal.timeout(this.#timeout);
    try {
      const answer = await fetch(new URL(where, this.url), { method, headers, body, signal, credentials: "omit", keepalive: more.keepalive });
      this.#now(true, answer.status >= 400 && answer.status !== 404 ? `the service answered ${answer.status}` : "");
      return answer;
    } catch (error) {
      this.#now(false, "the service cannot be reached");
      throw error;
    }
  }

  #now(reachable, problem) {
    if (reachable === this.#reachable && problem === this.#problem) return;
    [this.#reachable, this.#problem] = [reachable, problem];
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  #look() {
    for (const team of this.#teams.values()) team.refresh();
  }

  async #queue(records) {
    for (const one of records) this.#unsent.set(one.key, one);
    this.#changed();
    this.#work();
    await this.#kept.put("unsent", records);
  }

  // Sends all unsent steps; after a failure with growing pauses.
  #work() {
    this.#sending ??= (async () => {
      let pause = FIRST_PAUSE;
      await this.#sleep(GATHER);
      while (this.#unsent.size && !this.#closed) {
        const wait = await this.#tell([...this.#unsent.values()].slice(0, BATCH));
        if (wait === null) {
          pause = FIRST_PAUSE;
        } else {
          await this.#sleep(Math.max(wait, pause * (0.5 + 0.5 * Math.random())));
          pause = Math.min(2 * pause, LONGEST_PAUSE);
        }
      }
    })().finally(() => {
      this.#sending = null;
      if (this.#unsent.size && !this.#closed) this.#work();
    });
  }

  #sleep(ms) {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.#wake = () => (clearTimeout(timer), done());
    });
  }

  // Returns null if the request is settled, else the least pause in milliseconds.
  async #tell(batch, keepalive = false) {
    let answer;
    try {
      answer = await this.ask("POST", "v1/steps", bodyOf(batch), { keepalive });
    } catch {
      return 0;
    }
    if (TRY_AGAIN.has(answer.status)) return 1000 * (Number(answer.headers.get("retry-after")) || 0);
    if (!answer.ok) {
      const episodes = Map.groupBy ? Map.groupBy(batch, whose) : grouped(batch);
      const half = Math.ceil(batch.length / 2);
      let parts = [...episodes.values()];
      if (parts.length === 1 && batch.length > 1 && batch.every((one) => one.alone)) parts = [batch.slice(0, half), batch.slice(half)];
      if (parts.length > 1) {
        // one is wrong: send the others, episodes or steps of a run, by themselves
        let result = null;
        for (const one of parts) result = (await this.#tell(one)) ?? result;
        return result;
      }
      const found = await answer.json().catch(() => ({}));
      this.#refused.push(found.detail ?? `service: status is ${answer.status}, must be 200`);
    }
    const keys = batch.map((one) => one.key);
    await this.#kept.remove(keys).catch(() => {});
    keys.forEach((key) => this.#unsent.delete(key));
    this.#changed();
    return null;
  }

  // When the page is left, sends what fits; the rest stays stored.
  #leave() {
    const batch = [...this.#unsent.values()].slice(0, BATCH);
    if (batch.length && bodyOf(batch).length < KEEPALIVE) this.#tell(batch, true);
  }
}

const whose = (one) => `${one.team}\n${one.body.episode}`;

function grouped(batch) {
  const groups = new Map();
  for (const one of batch) groups.set(whose(one), [...(groups.get(whose(one)) ?? []), one]);
  return groups;
}

function bodyOf(batch) {
  const of = (kind) => batch.filter((one) => one.kind === kind).map((one) => ({ team: one.team, ...one.body }));
  return JSON.stringify({ steps: of("step"), ends: of("end") });
}

// ---------------------------------------------------------------------------------------------- a team

// Seconds since 1970 and 21 random bits: growing, unique numbers.
const newNumber = () => Math.floor(Date.now() / 1000) * 2 ** 21 + Math.floor(Math.random() * 2 ** 21);

/** A team, used like a learner. `Client.team` makes it. */
class Team {
  #client;
  #kept;
  #queue;
  #copy = null; // the newest policy, and what is known of the task
  #now = null; // that of the running episode
  #run = null; // the running episode: number, t, state, agent
  #chosen = null;
  #asking = null;

  constructor(client, name, kept, queue) {
    this.name = name;
    this.#client = client;
    this.#kept = kept;
    this.#queue = queue;
  }

  // Uses the stored copy, and waits for the service only if there is none.
  async open() {
    const found = await this.#kept.team(this.name);
    this.#copy = found?.copy ?? null;
    this.#run = found?.run ?? null;
    const asked = this.refresh();
    if (this.#copy) return;
    const problem = await asked;
    if (!this.#copy) throw new Error(problem || "team: its policy is missing, must be downloaded once; the service cannot be reached");
  }

  get startAgent() {
    return this.#there().about.start_agent ?? 0;
  }

  get agents() {
    return this.#there().about.agents ?? [];
  }

  /** The number of steps of an episode; null: there is no horizon. */
  get horizon() {
    return this.#there().about.horizon;
  }

  /** The version of the policy; 0: none yet, the fallback agent acts. */
  get version() {
    return this.#there().version;
  }

  /** Seconds since the policy was last confirmed as the newest one. It grows while the service is unreachable. */
  get age() {
    return Math.max(0, Date.now() - this.#copy.got) / 1000;
  }

  /** The current episode, also after a reload of the page: {episode, t, state, agent} of its next step; or null. */
  get running() {
    if (!this.#run) return null;
    const { episode, t, state, agent } = this.#run;
    return { episode, t, state, agent };
  }

  #there() {
    return (this.#now ??= this.#copy);
  }

  /** Refresh the policy now. Return "", or the error; then the copy stays. */
  refresh() {
    this.#asking ??= this.#download()
      .catch((error) => (error instanceof RangeError ? error.message : "the service cannot be reached"))
      .finally(() => (this.#asking = null));
    return this.#asking;
  }

  async #download() {
    const path = `v1/teams/${encodeURIComponent(this.name)}`;
    const headers = this.#copy?.tag ? { "if-none-match": this.#copy.tag } : {};
    const answer = await this.#client.ask("GET", `${path}/policy`, undefined, { headers });
    if (answer.status === 304) {
      this.#copy = { ...this.#copy, got: Date.now() };
    } else if (answer.ok) {
      const { policy, ...about } = await answer.json();
      this.#copy = { policy, about, version: about.version, fallback: about.fallback, tag: answer.headers.get("etag"), got: Date.now() };
    } else if (answer.status === 404 && !this.#copy?.tag) {
      // no plan yet, or unknown team; without a horizon there is no t
      const decide = (more) => this.#client.ask("POST", `${path}/decide`, JSON.stringify({ state: 0, prev_agent: 0, ...more }));
      let found = await decide({ t: 0 });
      if (found.status === 422) found = await decide({});
      if (!found.ok) throw new RangeError((await found.json()).detail);
      const { agent, reason } = await found.json();
      this.#copy = { policy: null, about: { reason }, version: 0, fallback: agent, tag: null, got: Date.now() };
    } else {
      throw new RangeError((await answer.json().catch(() => ({}))).detail ?? `service: status is ${answer.status}, must be 200`);
    }
    if (!this.#run && !this.#chosen) this.#now = null;
    await this.#keep();
    return "";
  }

  #keep = () => this.#kept.put("teams", [{ team: this.name, copy: this.#copy, run: this.#run }]);

  // Returns whether there is no horizon; while that is unknown, by the number of arguments. full: their number with t.
  #endless(owner, given, full, names) {
    const { horizon } = this.#there().about;
    const endless = horizon === undefined ? given.length < full : horizon === null;
    if (given.length !== full - (endless ? 1 : 0)) {
      fail(owner, "the number of arguments", given.length, `${full - (endless ? 1 : 0)}: ${endless ? "" : "t, "}${names}`);
    }
    return endless;
  }

  /** Begin an episode, or a run; return its number. Without it, the first step begins one. A current episode is dropped and
   * not counted; the steps of a run are counted already.
   */
  begin(episode = newNumber()) {
    this.#run = { episode: index("begin", "episode", episode), t: 0, state: null, agent: null };
    this.#now = this.#copy;
    this.#chosen = null;
    return episode;
  }

  /** Return the agent to put in control at time t in a state, if prevAgent was in control before: choose(t, state, prevAgent).
   *
   * Without a horizon: choose(state, prevAgent), always by the newest policy.
   */
  choose(...given) {
    const endless = this.#endless("choose", given, 3, "state, prevAgent");
    if (endless) this.#now = this.#copy;
    const { policy, about, fallback, version } = this.#there();
    const [t, state, prevAgent] = endless ? [this.#run?.t ?? 0, ...given] : given;
    if (!endless) index("choose", "t", t, about.horizon);
    index("choose", "state", state, about.n_states);
    index("choose", "prevAgent", prevAgent, about.agents?.length);
    const agent = policy ? (endless ? policy : policy[t])[state][prevAgent] : fallback;
    this.#chosen = { t, agent, version, reason: about.reason };
    return agent;
  }

  /** Record a step. The promise settles when the step is stored; it is sent even if the page is closed.
   *
   * observe(t, state, prevAgent, agent, action, nextState, more); without a horizon the same without t. more: cost and enterCost, if
   * the task does not state them; meta, an object that is stored with the step.
   */
  observe(...given) {
    const { cost, enterCost, meta } = typeof given.at(-1) === "object" || given.at(-1) === undefined ? (given.pop() ?? {}) : {};
    const endless = this.#endless("observe", given, 6, "state, prevAgent, agent, action, nextState");
    const about = this.#there().about;
    const run = this.#run ?? { episode: newNumber(), t: 0 };
    const [t, state, prevAgent, agent, action, nextState] = endless ? [run.t, ...given] : given;
    if (t !== run.t) fail("observe", "t", t, `${run.t}, the next step of this episode`);
    if (!endless) index("observe", "t", t, about.horizon);
    const agents = about.agents?.length;
    const body = {
      episode: run.episode, t,
      state: index("observe", "state", state, about.n_states),
      prev_agent: index("observe", "prevAgent", prevAgent, agents),
      agent: index("observe", "agent", agent, agents),
      action: index("observe", "action", action, about.n_actions),
      next_state: index("observe", "nextState", nextState, about.n_states),
      at: Date.now(),
    };
    if (run.t && run.state !== state) fail("observe", "state", state, `${run.state}, where the step before led`);
    if (run.t && run.agent !== prevAgent) fail("observe", "prevAgent", prevAgent, `${run.agent}, who acted in the step before`);
    for (const [name, value] of [["cost", cost], ["enter_cost", enterCost]]) {
      if (value !== undefined && !Number.isFinite(value)) fail("observe", name, value, "a finite number");
      if (value !== undefined) body[name] = value;
    }
    if (meta !== undefined) body.meta = meta;
    if (this.#chosen?.t === t) {
      const { agent: chosen, version, reason } = this.#chosen;
      Object.assign(body, { chosen, version, reason });
    }
    this.#run = { episode: run.episode, t: t + 1, state: nextState, agent, endless };
    if (endless && about.terminal?.includes(nextState)) [this.#run, this.#chosen] = [null, null]; // there a run ends
    const key = `${this.name}\n${run.episode}\n${t}`;
    return Promise.all([this.#queue([{ key, team: this.name, kind: "step", body, alone: endless }]), this.#keep()]).then(() => {});
  }

  /** End the current episode, or run; the next one uses the newest policy. */
  async endEpisode() {
    const run = this.#run;
    [this.#run, this.#now, this.#chosen] = [null, null, null];
    const end = { team: this.name, kind: "end", alone: run?.endless };
    if (run?.t) await this.#queue([{ key: `${this.name}\n${run.episode}\nend`, ...end, body: { episode: run.episode, steps: run.t } }]);
    await this.#keep();
  }
}
