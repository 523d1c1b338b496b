"""Why a task ends before it is done: an interrupt is not an error, and says who sent it by its exit code."""

from forge_cli.core.errors import ExitCode
from forge_cli.core.interrupt import TERMINATED, Interrupted

from ..rows import each_row


@each_row(
    ("reason", "code"),
    [(None, ExitCode.INTERRUPTED), ("enough", ExitCode.INTERRUPTED), (TERMINATED, ExitCode.TERMINATED)],
)
def test_an_interrupt_has_no_sentence_and_an_answer_of_its_own(reason: str | None, code: ExitCode) -> None:
    ended = Interrupted(reason)
    assert (ended.status, ended.exit_code, ended.answer, str(ended)) == ("interrupted", code, "[Interrupted]", "")
