// forge guard asks forge about every call; forge guard uninstall opencode removes this file.
import { spawn } from "node:child_process"

const command = COMMAND

function ask(question) {
  return new Promise((resolve) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "ignore", "pipe"] })
    let said = ""
    child.stderr.on("data", (piece) => (said += piece))
    child.stdin.on("error", () => {})
    child.on("error", (error) => resolve({ code: -1, said: String(error) }))
    child.on("close", (code) => resolve({ code, said }))
    child.stdin.end(JSON.stringify(question))
  })
}

export const ForgeGuard = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const { code, said } = await ask({
      hook_event_name: "tool.execute.before",
      session_id: input.sessionID,
      cwd: directory,
      tool_name: input.tool,
      tool_input: output.args,
    })
    if (code !== 0) throw new Error(said.trim() || "forge guard cannot be started; run: forge guard status")
  },
})
