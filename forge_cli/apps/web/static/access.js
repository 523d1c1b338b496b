// The token of this tab, exchanged for the secret in the printed address. It is kept in the session storage, which only
// pages of this origin (with its port) can read; browsers send a cookie to every server on this machine.

const KEY = "forge-token";
const ANSWER_TIMEOUT = 500; // milliseconds for another tab to answer

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

/** Ask the other tabs of this page for their token; return whether one had it. */
function askOthers() {
  others.postMessage({});
  const late = AbortSignal.timeout(ANSWER_TIMEOUT);
  return new Promise((answered) => {
    addEventListener(KEY, () => answered(true), { once: true, signal: late });
    late.addEventListener("abort", () => answered(false));
  });
}

const ask = (path, options) =>
  fetch(path, { cache: "no-store", ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });

/** Send a request with the token; if the server refuses it, retry with the token of another tab. */
export async function send(path, options = {}) {
  const used = token;
  const answer = await ask(path, options);
  if (answer.status !== 403) return answer;
  if (used && used === token) forget();
  return token || (await askOthers()) ? ask(path, options) : answer;
}

/** Take the token from the page and remove the secret from the address; return whether there was a secret. */
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

/** Wait until this tab has a token; call `lock` with whether the address had a secret, which was invalid. */
export async function enter(lock) {
  if (token || (await askOthers())) return;
  lock(hadSecret);
  await new Promise((entered) => addEventListener(KEY, entered, { once: true }));
}
