// Limit the streams of many tabs: a browser opens six connections to a server, and messages need one.

const MAX_STREAMS = 4; // of all tabs together
const PREFIX = "forge-stream-";

/** Call `pause` in a hidden tab if there are too many streams, and `resume` when it is visible again. */
export class Crowd {
  constructor({ pause, resume }) {
    this.pause = pause;
    this.release = null;
    // Without locks (they need a secure origin, such as this machine) every tab keeps its stream.
    if (!navigator.locks) return;
    this.channel = new BroadcastChannel("forge-streams");
    this.channel.onmessage = () => this.giveWay();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.giveWay() : resume()));
  }

  /** Register the stream of this tab. */
  enter() {
    if (this.name || !this.channel) return;
    const name = (this.name = PREFIX + crypto.randomUUID());
    navigator.locks.request(name, () => {
      if (this.name !== name) return null; // it has left meanwhile
      this.channel.postMessage("entered");
      return new Promise((release) => (this.release = release));
    });
  }

  leave() {
    this.release?.();
    this.release = this.name = null;
  }

  async giveWay() {
    if (!document.hidden || !this.release) return;
    const { held } = await navigator.locks.query();
    if (held.filter((lock) => lock.name.startsWith(PREFIX)).length <= MAX_STREAMS) return;
    this.pause();
    this.leave();
  }
}
