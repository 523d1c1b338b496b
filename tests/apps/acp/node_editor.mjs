// An editor on the TypeScript library of the protocol: starts forge, works with it, and prints what it saw.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [folder, ...command] = process.argv.slice(2);
const seen = { updates: [], asked: [], stops: [], errors: [] };
const answers = ["once", "no"];
const watchers = [];

function watch(condition) {
  return new Promise((resolve) => watchers.push({ condition, resolve }));
}

function news() {
  for (const watcher of watchers.splice(0)) {
    if (watcher.condition()) watcher.resolve();
    else watchers.push(watcher);
  }
}

function start() {
  const child = spawn(command[0], command.slice(1), { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  return { child, ended, stream: acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)) };
}

const editor = () =>
  acp
    .client({ name: "test-editor" })
    .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
      seen.asked.push(params);
      news();
      const answer = answers.shift();
      if (answer === undefined) return new Promise(() => {});
      return { outcome: { outcome: "selected", optionId: answer } };
    })
    .onNotification(acp.methods.client.session.update, async ({ params }) => {
      seen.updates.push(params.update);
      news();
    });

const text = (said) => [{ type: "text", text: said }];
const { agent: methods } = acp.methods;
let session;

const first = start();
await editor().connectWith(first.stream, async (forge) => {
  const told = await forge.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  seen.version = told.protocolVersion;
  seen.capabilities = told.agentCapabilities;
  ({ sessionId: session } = await forge.request(methods.session.new, { cwd: folder, mcpServers: [] }));
  const say = async (said, id = session) =>
    seen.stops.push((await forge.request(methods.session.prompt, { sessionId: id, prompt: text(said) })).stopReason);
  await say("write it");
  await say("write it again");
  await forge.request(methods.session.setMode, { sessionId: session, modeId: "readOnly" });
  await forge.request(methods.session.setMode, { sessionId: session, modeId: "ask" });
  const { sessionId: other } = await forge.request(methods.session.new, { cwd: folder, mcpServers: [] });
  const waits = say("never answered", other);
  await watch(() => seen.asked.length === 3);
  await forge.notify(methods.session.cancel, { sessionId: other });
  await waits;
  await forge.request(methods.session.prompt, { sessionId: "none", prompt: text("hi") }).catch((error) => {
    seen.errors.push(error.code);
  });
});
first.child.stdin.end();
seen.exit = await first.ended;

const second = start();
await editor().connectWith(second.stream, async (forge) => {
  await forge.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const listed = await forge.request(methods.session.list, { cwd: folder });
  seen.listed = listed.sessions.some((each) => each.sessionId === session);
  const before = seen.updates.length;
  await forge.request(methods.session.load, { sessionId: session, cwd: folder, mcpServers: [] });
  seen.replayed = seen.updates.slice(before).map((each) => each.sessionUpdate);
});
second.child.kill("SIGKILL");
console.log(JSON.stringify(seen));
process.exit(0);
