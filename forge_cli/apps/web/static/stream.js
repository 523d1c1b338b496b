// The events of one session as they arrive: in order, in pieces that leave the page usable, again after a break.

import { refusalOf, session } from "./dom.js";

const BUDGET = 12; // milliseconds of one frame
const LOADING = 50; // the same while the past is loaded, of which nothing is shown yet
const RETRY = 1000;
const HIDDEN = 100; // a hidden tab gets no frames

/**
 * Calls `take` for each event object, `done` after each piece, `state` with "open", "gone" or "stranger";
 * `missing` with a sentence where there is no such session; `loading` says whether what comes is still the past.
 */
export class Stream {
  constructor(id, { take, done, state, missing, loading }) {
    Object.assign(this, { id, take, done, state, missing, loading });
    this.last = null;
    this.queue = [];
    this.closed = false;
    this.connect();
  }

  connect() {
    const after = this.last === null ? "" : `?after=${encodeURIComponent(this.last)}`;
    this.source = new EventSource(session(this.id, `events${after}`));
    this.source.onopen = () => {
      this.queue.push({ type: "connected" });
      this.schedule();
      this.state("open");
    };
    this.source.onmessage = (message) => {
      if (message.lastEventId) this.last = message.lastEventId;
      for (const event of JSON.parse(message.data)) this.queue.push(event);
      this.schedule();
    };
    this.source.onerror = () => {
      // Where the server answers, but with a refusal, EventSource gives up for good.
      if (this.source.readyState === EventSource.CLOSED) this.retry(this.last === null ? 0 : RETRY);
      else this.state("gone");
    };
  }

  retry(wait = RETRY) {
    if (this.closed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const refusal = await refusalOf(session(this.id, "events"));
      if (this.closed) return;
      if (!refusal) this.connect();
      else if (refusal.status === 400) this.missing(refusal.message);
      else {
        this.state(refusal.status === 403 ? "stranger" : "gone");
        this.retry();
      }
    }, wait);
  }

  schedule() {
    if (this.frame || this.closed) return;
    this.frame = requestAnimationFrame(() => this.draw());
    this.fallback = setTimeout(() => this.draw(), HIDDEN);
  }

  draw() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.fallback);
    this.frame = undefined;
    if (this.closed) return;
    const until = performance.now() + (this.loading() ? LOADING : BUDGET);
    let index = 0;
    while (index < this.queue.length && (index % 8 || performance.now() < until)) this.take(this.queue[index++]);
    this.queue.splice(0, index);
    this.done();
    if (this.queue.length) this.schedule();
  }

  /** Let the connection go; `resume` takes up where it was. */
  pause() {
    clearTimeout(this.timer);
    this.source.close();
    this.isPaused = true;
  }

  resume() {
    if (!this.isPaused || this.closed) return;
    this.isPaused = false;
    this.connect();
  }

  close() {
    this.pause();
    this.closed = true;
    clearTimeout(this.fallback);
    cancelAnimationFrame(this.frame);
  }
}
