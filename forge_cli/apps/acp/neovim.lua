-- CodeCompanion, in init.lua; everything but the command is as for another program that speaks the protocol
require("codecompanion").setup({
  adapters = {
    acp = {
      %(key)s = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "%(key)s",
          formatted_name = %(name)s,
          commands = { default = { %(command)s } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "%(key)s" } },
})
