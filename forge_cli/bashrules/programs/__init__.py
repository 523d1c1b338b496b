"""Knowledge of programs: their options, their subcommands, and what they start."""
