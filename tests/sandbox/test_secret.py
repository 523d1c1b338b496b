"""What may hold secrets is the same for whoever looks at a name."""

from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.search.files import IgnoreLevel

from ..rows import each_row


@each_row(("name", "secret"), [(".env", True), (".ENV.local", True), (".environment", True), ("env", False)])
def test_files_searches_and_commands_agree(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
    assert IgnoreLevel().leaves_out(name.encode(), is_folder=False) is secret
