// Calls to the service. Every refusal becomes an Error with the service's own words.
const tokenKey = "millrace-token";
let asking = null;

function headersOf(more) {
  const token = sessionStorage.getItem(tokenKey);
  return token ? { ...more, authorization: `Bearer ${token}` } : { ...more };
}

// One dialog at a time, however many calls are refused at once.
function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("ask-token");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(tokenKey, document.getElementById("token").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function send(method, path, body, headers = {}, signal = undefined) {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(path, {
    method, signal, headers: headersOf({ ...json, ...headers }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status !== 401) return response;
  await askForToken();
  return send(method, path, body, headers, signal);
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// {body, headers} of a JSON call.
export async function call(method, path, body, headers) {
  let response;
  try {
    response = await send(method, path, body, headers);
  } catch {
    throw new Refused(0, "the service cannot be reached");
  }
  const text = await response.text();
  let parsed = null;
  try {
    parsed = JSON.parse(text);
  } catch { /* not JSON: the status speaks */ }
  if (!response.ok) throw new Refused(response.status, parsed?.error?.message ?? `the service answered ${response.status}`);
  return { body: parsed ?? text, headers: response.headers };
}

export const get = async (path) => (await call("GET", path)).body;

// Server-sent events over fetch, because EventSource can send no token. Reconnects until the page closes.
export async function listen(path, onEvent, onState) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 10000)) {
    try {
      const response = await send("GET", path);
      if (!response.ok) throw new Error(String(response.status));
      onState(true);
      wait = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let pending = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        pending += value;
        const messages = pending.split("\n\n");
        pending = messages.pop();
        for (const message of messages) {
          const field = (name) => message.split("\n").filter((line) => line.startsWith(`${name}: `))
            .map((line) => line.slice(name.length + 2)).join("\n");
          if (field("data")) onEvent(field("event"), JSON.parse(field("data")));
        }
      }
    } catch { /* tried again below */ }
    onState(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// Prometheus text as a function of a metric's name and labels: its value, or 0.
export function parseMetrics(text) {
  const series = new Map();
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (found) series.set(found[1] + "|" + (found[2] ?? "").split(",").sort().join(","), Number(found[3]));
  }
  return (name, labels = {}) => {
    const key = Object.entries(labels).map(([label, value]) => `${label}="${value}"`).sort().join(",");
    return series.get(`millrace_${name}|${key}`) ?? 0;
  };
}
