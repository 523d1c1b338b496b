// The events of one session as they arrive: in order, in pieces that leave the page usable, again after a break.

import { get, session } from "./dom.js";

const BUDGET = 12; // milliseconds of one frame
const LOADING = 50; // the same while the past is loaded, of which nothing is shown yet
const RETRY = 1000;
const HIDDEN = 100; // a hidden tab gets no frames

/**
 * Calls `take` for each event object, `done` after each piece, `state` with "open", "gone" or "stranger";
 * `loading` says whether what comes is still the past.
 */
export class Stream {
  constructor(id, { take, done, state, loading }) {
    Object.assign(this, { id, take, done, state, loading });
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
      this.state("gone");
      // Where the server answers, but with a refusal, EventSource gives up for good.
      if (this.source.readyState === EventSource.CLOSED) this.retry();
    };
  }

  retry() {
    if (this.closed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        await get("/api/state");
        if (!this.closed) this.connect();
      } catch (refusal) {
        if (this.closed) return;
        this.state(refusal.status === 403 ? "stranger" : "gone");
        this.retry();
      }
    }, RETRY);
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
