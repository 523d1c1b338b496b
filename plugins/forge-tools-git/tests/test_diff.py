"""git_diff: the patch as the model and the person see it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from forge_cli.testing import call

if TYPE_CHECKING:
    from conftest import Repo

PATCH = """diff --git a/a b/a
index 5626abf..814f4a4 100644
--- a/a
+++ b/a
@@ -1 +1,2 @@
 one
+two
"""


@pytest.fixture
def changed(repo: Repo) -> Repo:
    repo.commit(a="one\n", b="one\n")
    repo.write("a", "one\ntwo\n")
    return repo


def test_unstaged_changes_are_a_patch(changed: Repo) -> None:
    value = changed.call("git_diff").value
    assert (value.kind, value.summary, value.data) == (
        "git.diff",
        "1 file changed, 1 insertion(+)",
        PATCH,
    )
    assert value.mime_type == "text/x-diff"


def test_patch_reaches_the_model_unchanged(changed: Repo) -> None:
    value = changed.call("git_diff").value
    assert value.text() == f"1 file changed, 1 insertion(+)\n{PATCH}"


@pytest.mark.long
def test_staged_changes_are_a_patch(changed: Repo) -> None:
    assert changed.call("git_diff", staged=True).value.summary == "no changes (staged)"
    changed.git("add", "a")
    value = changed.call("git_diff", staged=True).value
    assert (value.summary, value.data) == ("1 file changed, 1 insertion(+) (staged)", PATCH)
    assert changed.call("git_diff").value.summary == "no changes"


@pytest.mark.long
def test_diff_can_be_limited_to_one_path(changed: Repo) -> None:
    changed.write("b", "changed\n")
    assert changed.call("git_diff", path="a").value.data == PATCH
    assert changed.call("git_diff", path="/workspace/a").value.data == PATCH
    assert (
        changed.call("git_diff", path="./b/../a").error
        == "'./b/../a' leads out of the working directory"
    )
    assert changed.call("git_diff", path="").status == "invalid"


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("../outside", "leads out of the working directory"),
        ("/etc/passwd", "is not relative to the working directory"),
        ("a\0b", "leads out of the working directory"),
    ],
)
def test_path_outside_the_working_directory_is_refused(
    changed: Repo, path: str, sentence: str
) -> None:
    assert sentence in changed.call("git_diff", path=path).error


@pytest.mark.long
@pytest.mark.few(4)
@pytest.mark.parametrize(
    "path", ["--output=stolen", "-a", "--no-index", ":(top)a", ":/", "*", "[a]", ":!a"]
)
def test_path_is_never_an_option_or_a_pattern(changed: Repo, path: str) -> None:
    before = set(os.listdir(changed.folder))
    assert changed.call("git_diff", path=path).value.summary == "no changes"
    assert set(os.listdir(changed.folder)) == before
    changed.write(path.replace("/", "_"), "one\n")
    changed.git("add", "--all")
    assert "new file" not in changed.call("git_diff", path=path).value.data


@pytest.mark.long
def test_file_named_like_an_option_can_be_named(repo: Repo) -> None:
    repo.commit(a="1\n", **{"-a": "1\n", "*": "1\n"})
    for name in ("a", "-a", "*"):
        repo.write(name, "2\n")
    for name in ("-a", "*"):
        assert (
            repo.call("git_diff", path=name).value.summary
            == "1 file changed, 1 insertion(+), 1 deletion(-)"
        )


@pytest.mark.long
def test_secrets_are_omitted_unless_requested(repo: Repo) -> None:
    names = [".env", "app/.ENV.local", ".env.d/key", "a"]
    for content in ("one\n", "password\n"):
        for name in names:
            repo.write(name, content)
        if content == "one\n":
            repo.commit()
    value = repo.call("git_diff").value
    assert value.summary == (
        "1 file changed, 1 insertion(+), 1 deletion(-); "
        "omitted unless named by path: .env, .env.d/key, app/.ENV.local"
    )
    assert value.data.count("diff --git") == 1
    assert repo.call("git_diff", path="app").value.data == ""
    asked = repo.seen(call("git_diff", path="app/.ENV.local"), answers=[True])
    assert [request.tool_name for request in asked.asked] == ["git_diff"]
    assert "+password" in asked.outcomes[0].value.data
    assert repo.call("git_diff", path="app/.ENV.local", answers=[False]).status == "denied"


@pytest.mark.long
def test_display_settings_do_not_change_the_patch(changed: Repo) -> None:
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "color.ui": "always",
        "color.diff": "always",
        "core.quotePath": "true",
        "diff.wordRegex": ".",
    }.items():
        changed.git("config", key, value)
    assert changed.call("git_diff").value.data == PATCH


@pytest.mark.long
def test_huge_diff_is_cut(repo: Repo) -> None:
    repo.commit(a="")
    repo.write("a", "0123456789\n" * 300_000)
    value = repo.call("git_diff").value
    assert value.summary == "1 file changed, 300000 insertions(+)"
    assert "bytes cut ...]" in value.data
    assert len(value.data) < 1_100_000


def test_binary_files_are_summarised(repo: Repo) -> None:
    repo.commit()
    (repo.folder / "blob").write_bytes(bytes(range(256)))
    (repo.folder / "latin").write_bytes(b"gr\xfcn\n")
    repo.git("add", "--all")
    patch = repo.call("git_diff", staged=True).value.data
    assert "Binary files /dev/null and b/blob differ" in patch
    assert "+gr\ufffdn" in patch
