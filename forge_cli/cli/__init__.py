"""The command line: one module a command, thin; its modules load when they are first used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forge_cli.cli import ask_trust as ask_trust
    from forge_cli.cli import courses as courses
    from forge_cli.cli import early as early
    from forge_cli.cli import foreign as foreign
    from forge_cli.cli import lock_changes as lock_changes
    from forge_cli.cli import notices as notices
    from forge_cli.cli import overview as overview
    from forge_cli.cli import trusted_workers as trusted_workers
    from forge_cli.cli import usage as usage


def __getattr__(name: str) -> object:
    from forge_cli.core.lazy import lazy_modules  # nothing else is loaded for --version

    return lazy_modules(__name__)(name)
