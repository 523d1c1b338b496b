// The token of this tab: what the secret in the printed address is exchanged for. It is kept where only pages of this
// very origin can read it, port included; a cookie would go to every server on this machine.

const KEY = "forge-token";
const WAIT = 500; // milliseconds for another tab to answer

const refused = new Set();
const others = new BroadcastChannel(KEY);
let token = sessionStorage.getItem(KEY);

others.onmessage = ({ data }) => {
  if (data.token) adopt(data.token);
  else if (token) others.postMessage({ token });
};

function adopt(given) {
  if (refused.has(given)) return;
  token = given;
  sessionStorage.setItem(KEY, token);
  dispatchEvent(new Event(KEY));
}

function forget() {
  refused.add(token);
  token = null;
  sessionStorage.removeItem(KEY);
}

/** Ask the other tabs of this page for their token; whether one had it. */
function askOthers() {
  others.postMessage({});
  const late = AbortSignal.timeout(WAIT);
  return new Promise((answered) => {
    addEventListener(KEY, () => answered(true), { once: true, signal: late });
    late.addEventListener("abort", () => answered(false));
  });
}

const ask = (path, options) =>
  fetch(path, { cache: "no-store", ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });

/** A request with the token; where the server does not know that any more, with the one of another tab. */
export async function send(path, options = {}) {
  const used = token;
  const answer = await ask(path, options);
  if (answer.status !== 403) return answer;
  if (used && used === token) forget();
  return token || (await askOthers()) ? ask(path, options) : answer;
}

/** Take the token that came with the page, and the secret out of the address; whether there was a secret. */
function take() {
  const address = new URL(location.href);
  if (!address.searchParams.has("secret")) return false;
  address.searchParams.delete("secret");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
  const given = document.querySelector("meta[name=forge-token]");
  if (given) {
    adopt(given.content);
    others.postMessage({ token });
    given.remove();
  }
  return true;
}

const hadSecret = take();

/** Returns once this tab has a token; until then `lock` is told whether its address had a secret, which was not good. */
export async function enter(lock) {
  if (token || (await askOthers())) return;
  lock(hadSecret);
  await new Promise((entered) => addEventListener(KEY, entered, { once: true }));
}
