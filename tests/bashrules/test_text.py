"""Text and names: as safe to print as elsewhere in forge, and secrets known without it.

Covers forge_cli.bashrules.text, forge_cli.bashrules.names, forge_cli.bashrules.decision, forge_cli.bashrules.data.
"""

from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules import text
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.names import FileNames
from forge_cli.core.approval import Approval
from forge_cli.core.text import UNSEEN, cut, visible
from forge_cli.sandbox.protected import is_secret

ODD = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "\t",
        "\x1b[2J",
        "\u0301",
        "\u202e",
        "\u200b",
        "\ufe0f",
        "\u034f",
        "\xa0",
        "\ud800",
        "\xe9",
    ]
)
NAMES = st.lists(
    st.sampled_from([".env", "ENV", ".", "x", ".example", "\ufb01", " ", "/", "=", "*"]), max_size=5
).map("".join)


@given(st.one_of(st.text(), st.lists(ODD).map("".join)))
def test_text_is_escaped_like_elsewhere_in_forge(given_text: str) -> None:
    assert text.visible(given_text) == visible(given_text)
    assert text.shortened(given_text * 20) == cut(given_text * 20, 160, "end")
    assert text.UNSEEN == UNSEEN


@given(NAMES)
def test_secret_file_names_equal_those_of_forge(name: str) -> None:
    assert FileNames().is_secret(name) == is_secret(name)


def test_decisions_equal_the_approvals_of_forge() -> None:
    assert [each.value for each in Decision] == [each.value for each in Approval]
    assert Decision.strictest() is Decision.ASK
    assert (
        Decision.strictest(Decision.ASK, Decision.BLOCKED, Decision.PRE_APPROVED)
        is Decision.BLOCKED
    )
