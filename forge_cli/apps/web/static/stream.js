// The events of one session as they arrive: in order, in pieces that leave the page usable, again after a break.

import { send } from "./access.js";
import { Refusal, session } from "./dom.js";

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

  async connect() {
    const stop = (this.stop = new AbortController());
    const after = this.last === null ? "" : `?after=${encodeURIComponent(this.last)}`;
    const answer = await send(session(this.id, `events${after}`), { signal: stop.signal }).catch(() => null);
    const body = answer?.ok ? null : await answer?.json().catch(() => ({}));
    if (stop.signal.aborted) return;
    if (answer?.status === 400) {
      this.missing(new Refusal(400, body).message);
      return;
    }
    if (answer?.ok) {
      this.queue.push({ type: "connected" });
      this.schedule();
      this.state("open");
      await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      if (stop.signal.aborted) return;
    }
    this.state(answer?.status === 403 ? "stranger" : "gone");
    this.timer = setTimeout(() => this.connect(), RETRY);
  }

  /** Take messages until the connection ends or breaks. */
  async read(reader) {
    let text = "";
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      text += value;
      if (!value.includes("\n")) continue; // in the middle of a long message
      const messages = text.split("\n\n");
      text = messages.pop();
      for (const message of messages) this.hear(message);
    }
  }

  hear(message) {
    for (const line of message.split("\n")) {
      if (line.startsWith("id: ")) this.last = line.slice(4);
      else if (line.startsWith("data: ")) this.queue.push(...JSON.parse(line.slice(6)));
    }
    this.schedule();
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
    this.stop.abort();
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
