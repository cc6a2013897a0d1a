// Requests to the service. The token is stored for this tab only, and sent as a header, never in an address.

const KEY = "cede-token";
export const base = new URL("../", import.meta.url);

// The command line prints an address that ends in #token=...; the part after # is never sent to a server.
export function takeToken() {
  if (location.hash.startsWith("#token=")) {
    setToken(decodeURIComponent(location.hash.slice(7)));
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export const token = () => sessionStorage.getItem(KEY) || "";

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status; // 0: the service cannot be reached
  }
}

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

function address(where, query = {}) {
  const url = new URL(where, base);
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  return url;
}

async function ask(where, query, more = {}) {
  let answer;
  try {
    answer = await fetch(address(where, query), {
      ...more,
      headers: { authorization: `Bearer ${token()}`, ...more.headers },
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached.");
  }
  if (!answer.ok) {
    const found = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, found.detail || `The service answered ${answer.status}.`);
  }
  return answer;
}

export const get = async (where, query) => (await ask(where, query)).json();

// Downloads a file; a plain link could not send the token.
export async function download(where, query, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await ask(where, query)).blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Listens to live events until stopped; reconnects, and gets missed plans.
// onEvent(kind, data): for every event. changed(state): "live" or "broken".
export async function listen(onEvent, changed, signal) {
  let last = null;
  let pause = 1000;
  while (!signal.aborted) {
    try {
      const answer = await ask("v1/events", {}, { signal, headers: last === null ? {} : { "last-event-id": last } });
      changed("live");
      pause = 1000;
      let rest = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const blocks = (rest + part.value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = {};
          for (const line of block.split("\n")) {
            const at = line.indexOf(": ");
            if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
          }
          if (fields.id !== undefined) last = fields.id;
          if (fields.event) onEvent(fields.event, JSON.parse(fields.data));
        }
      }
    } catch (error) {
      if (error.status === 401 || error.status === 403) return changed("broken");
    }
    if (signal.aborted) return;
    changed("broken");
    await wait(pause * (0.5 + Math.random()));
    pause = Math.min(pause * 2, 30000);
  }
}
