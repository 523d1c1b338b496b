// The events of a session in order, processed in small pieces, with reconnects.

import { send } from "./access.js";
import { Refusal, session } from "./dom.js";

const FRAME_BUDGET = 12; // milliseconds per frame
const LOADING_BUDGET = 50; // milliseconds per frame while the hidden history is loaded
const RETRY_INTERVAL = 1000; // milliseconds
const HIDDEN_INTERVAL = 100; // milliseconds; a hidden tab gets no frames

/**
 * Call `take` for each event object, `done` after each piece, and `state` with "open", "gone" or "stranger". Call
 * `missing` with a message if the session does not exist; `loading` returns whether the history is still loading.
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
    this.timer = setTimeout(() => this.connect(), RETRY_INTERVAL);
  }

  /** Read messages until the connection ends. */
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
    this.fallback = setTimeout(() => this.draw(), HIDDEN_INTERVAL);
  }

  draw() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.fallback);
    this.frame = undefined;
    if (this.closed) return;
    const until = performance.now() + (this.loading() ? LOADING_BUDGET : FRAME_BUDGET);
    let index = 0;
    while (index < this.queue.length && (index % 8 || performance.now() < until)) this.take(this.queue[index++]);
    this.queue.splice(0, index);
    this.done();
    if (this.queue.length) this.schedule();
  }

  /** Close the connection; `resume` continues from there. */
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
