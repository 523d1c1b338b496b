// Many tabs in one browser: it opens six connections to a server, and messages need one, so hidden tabs give theirs up.

const MOST = 4; // streams of all tabs together
const PREFIX = "forge-stream-";

/** Calls `pause` in a hidden tab when there are too many, and `resume` when it is looked at again. */
export class Crowd {
  constructor({ pause, resume }) {
    this.pause = pause;
    this.release = null;
    // Without them (a page that is not on this machine) every tab keeps its connection.
    if (!navigator.locks) return;
    this.channel = new BroadcastChannel("forge-streams");
    this.channel.onmessage = () => this.giveWay();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.giveWay() : resume()));
  }

  /** This tab has a stream from now on. */
  enter() {
    if (this.name || !this.channel) return;
    const name = (this.name = PREFIX + crypto.randomUUID());
    navigator.locks.request(name, () => {
      if (this.name !== name) return null; // it has left before it was in
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
    if (held.filter((lock) => lock.name.startsWith(PREFIX)).length <= MOST) return;
    this.pause();
    this.leave();
  }
}
