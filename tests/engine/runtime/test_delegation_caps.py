"""Attacks: a child worker that asks for more than its caller has, and a caller that tries it through a child.

Covers forge_cli.engine.gate.judge.
"""

import os
from pathlib import Path

import pytest

from forge_cli.testing import Seen, call, calls
from tests.support.tree import ASK_HELPER, Tree, allowed, custom, results, texts

ZONES = "sandbox: {{zones: [{0}]}}"


def zone(
    name: str,
    path: str = "",
    *,
    mode: str = "rw",
    write: str = "preApproved",
    delete: str = "preApproved",
) -> str:
    place = f"path: {path}, " if path else ""
    return f"{{name: {name}, {place}mode: {mode}, approval: {{write: {write}, delete: {delete}}}}}"


def zones(*entries: str) -> str:
    return ZONES.format(", ".join(entries))


def write(path: str) -> dict:
    return call("write_file", path=path, content="x")


# Zones


def helped(
    tree: Tree, *made: dict, more: str, toolsets: tuple[str, ...] = ("filesystem: {}",)
) -> Seen:
    """Let the helper make these calls in one turn."""
    tree.worker("helper", calls(*made), "done", toolsets=toolsets, more=more)
    return tree.run(ASK_HELPER, "done")


def statuses(seen: Seen, depth: int = 1) -> list[str]:
    return [event.status for event in results(seen, depth)]


@pytest.mark.parametrize("path", ["../outside", "ABSOLUTE", "inside/../../outside", "way/out"])
def test_zone_outside_those_of_the_caller_is_refused_and_not_created(
    tree: Tree, tmp_path: Path, path: str
) -> None:
    (tree.project.folder / "way").symlink_to(tmp_path)
    tree.boss(allowed("helper"), more=zones(zone("inside")))
    seen = helped(
        tree, write("/z/a"), more=zones(zone("z", path.replace("ABSOLUTE", f"{tmp_path}/out")))
    )
    assert "is outside the zones of the parent worker" in texts(seen)[0]
    assert "helper.yaml:3:" in texts(seen)[0]
    assert not list(tmp_path.glob("out*"))


def test_zone_that_contains_a_zone_of_the_caller_is_refused(tree: Tree) -> None:
    tree.boss(allowed("helper"), more=zones(zone("inside")))
    assert (
        "is outside the zones of the parent worker"
        in texts(helped(tree, write("/z/a"), more=zones(zone("z", "."))))[0]
    )


def test_child_without_zones_has_those_of_its_caller(tree: Tree) -> None:
    both = zones(
        zone("inside", delete="blocked"), zone("kept", "inside/kept", mode="rw", write="ask")
    )
    tree.boss(allowed("helper"), more=both)
    made = (
        write("/inside/a"),
        call("delete_file", path="/inside/a"),
        write("/inside/kept/a"),
        write("/workspace/a"),
    )
    assert statuses(helped(tree, *made, more="")) == ["success", "blocked", "denied", "error"]


def test_verdict_names_the_deciding_line_of_the_caller(tree: Tree) -> None:
    stricter = zones(zone("kept", write="ask", delete="blocked"), zone("free", write="preApproved"))
    tree.boss(allowed("helper"), more=stricter)
    made = (write("/kept/a"), call("delete_file", path="/kept/b"), write("/free/a"))
    seen = helped(tree, *made, more=zones(zone("kept"), zone("free", write="ask")))
    decided = [
        line for line in seen.lines if line["type"] == "approvalDecided" and line["depth"] == 1
    ]
    assert [(line["verdict"], Path(line["where"].split(":")[0]).name) for line in decided] == [
        ("ask", "boss.yaml"),
        ("blocked", "boss.yaml"),
        ("ask", "helper.yaml"),
    ]


def test_default_zone_is_inherited_with_its_relative_paths(tree: Tree) -> None:
    tree.project.write("a.txt", "hello")
    tree.boss(allowed("helper"))
    seen = helped(tree, call("read_file", path="a.txt"), write("b.txt"), more="")
    assert statuses(seen) == ["success", "denied"]


def test_zones_of_a_child_are_capped_in_mode_and_approval(tree: Tree) -> None:
    (tree.project.folder / "data").mkdir()
    caller = zones(zone("data", mode="ro"), zone("out", write="ask", delete="blocked"))
    tree.boss(allowed("helper"), more=caller)
    own = zones(zone("mine", "data"), zone("ours", "out/deep"))
    made = (write("/mine/a"), write("/ours/a"), call("delete_file", path="/ours/a"))
    seen = helped(tree, *made, more=own)
    assert statuses(seen) == ["error", "denied", "blocked"]
    assert "read-only" in texts(seen, 1)[0]


def test_grandchild_is_capped_by_all_ancestors(tree: Tree) -> None:
    tree.boss(allowed("helper"), more=zones(zone("data", write="ask")))
    tree.worker(
        "helper",
        calls(call("leaf", input="x")),
        "done",
        toolsets=(allowed("leaf"),),
        more=zones(zone("data")),
    )
    leaf = zones(zone("data", "data/deep"))
    tree.worker("leaf", calls(write("/data/a")), "done", toolsets=("filesystem: {}",), more=leaf)
    assert statuses(tree.run(ASK_HELPER, "done"), 2) == ["denied"]
    tree.worker(
        "leaf",
        calls(write("/data/a")),
        "done",
        toolsets=("filesystem: {}",),
        more=zones(zone("data", "other")),
    )
    seen = tree.run(ASK_HELPER, "done")
    assert "is outside the zones of the parent worker" in texts(seen, 1)[0]
    assert not (tree.project.folder / "other").exists()


def test_caller_without_zones_gives_its_child_none(tree: Tree) -> None:
    tree.boss(allowed("helper"), more="sandbox: {zones: []}")
    assert (
        "is outside the zones of the parent worker"
        in texts(helped(tree, write("/z/a"), more=zones(zone("z"))))[0]
    )
    assert statuses(helped(tree, write("a.txt"), more="")) == ["error"]


def test_zone_of_a_toolset_must_exist_in_the_caller(tree: Tree) -> None:
    toolsets = ("filesystem: {}", "executables: {}")
    tools = call("list_files", path="/tools")
    assert statuses(helped(tree, tools, more="", toolsets=toolsets)) == ["error"]
    tree.boss(allowed("helper"), "executables: {}")
    assert statuses(helped(tree, tools, more="", toolsets=toolsets)) == ["success"]


# Blocked verdicts


BLOCKS = "shell: {rules: [{pattern: git push, approval: blocked, reason: for people}]}"
FREE = "shell: {default: preApproved}"


@pytest.mark.parametrize(
    "made",
    [
        call("shell", command="git push"),
        call("shell", command="true; git  'push' -f"),
        call("exec_command", command="git push"),
        call("exec_command", command="git push", workdir="/workspace"),
        call("exec_command", command="git push", workdir="/workspace/deep"),
    ],
)
def test_command_that_the_caller_blocks_is_blocked(tree: Tree, made: dict) -> None:
    (tree.project.folder / "deep").mkdir()
    tree.boss(allowed("helper"), BLOCKS)
    seen = helped(tree, made, more="", toolsets=(FREE,))
    assert statuses(seen) == ["blocked"]
    assert "the parent worker 'boss' blocks it" in texts(seen, 1)[0]


def test_input_of_a_shell_that_the_caller_blocks_is_blocked(tree: Tree) -> None:
    tree.boss(allowed("helper"), BLOCKS)
    started = calls(call("exec_command", command="bash", yield_time_ms=0))
    typed = calls(call("write_stdin", session_id=1, chars="git push\n"))
    tree.worker("helper", started, typed, "done", toolsets=(FREE,))
    seen = tree.run(ASK_HELPER, "done", approval_mode="approve_all")
    assert statuses(seen) == ["success", "blocked"]


def test_default_of_the_caller_that_blocks_applies_to_a_child(tree: Tree) -> None:
    tree.boss(
        allowed("helper"),
        "shell: {default: blocked, rules: [{pattern: 'true', approval: preApproved}]}",
    )
    made = call("shell", command="true"), call("shell", command="echo x")
    assert statuses(helped(tree, *made, more="", toolsets=(FREE,))) == ["success", "blocked"]


def test_block_of_a_grandparent_applies_to_all_descendants(tree: Tree) -> None:
    for between in ("plan: {}", FREE):
        tree.boss(allowed("helper"), BLOCKS)
        tree.worker(
            "helper", calls(call("leaf", input="x")), "done", toolsets=(allowed("leaf"), between)
        )
        tree.worker("leaf", calls(call("shell", command="git push")), "done", toolsets=(FREE,))
        assert statuses(tree.run(ASK_HELPER, "done"), 2) == ["blocked"]


def test_tool_blocked_by_name_is_blocked_in_a_child_under_any_name(tree: Tree) -> None:
    blocked = "filesystem: {approval: {tools: {read_file: blocked}}}"
    tree.project.write("a.txt", "hello")
    tree.boss(allowed("helper"), blocked)
    own = ("filesystem: {prefix: my}",)
    made = call("my_read_file", path="a.txt"), call("my_list_files", path=".")
    assert statuses(helped(tree, *made, more="", toolsets=own)) == ["blocked", "success"]
    tree.worker(
        "helper",
        calls(call("leaf", input="x")),
        "done",
        toolsets=(allowed("leaf"), "filesystem: {}"),
    )
    tree.worker(
        "leaf", calls(call("read_file", path="a.txt")), "done", toolsets=("filesystem: {}",)
    )
    assert statuses(tree.run(ASK_HELPER, "done"), 2) == ["blocked"]


def test_blocking_default_covers_only_child_tools_without_own_approval(
    tree: Tree,
) -> None:
    tree.boss(allowed("helper"), custom("note", "risky", approval="blocked"))
    made = call("note", text="x"), call("risky", text="y")
    assert statuses(helped(tree, *made, more="", toolsets=(custom("note", "risky"),))) == [
        "blocked",
        "denied",
    ]


def test_child_may_pre_approve_what_asks_in_the_caller(tree: Tree) -> None:
    """Each worker has its own approvals; only blocks apply to children."""
    tree.boss(allowed("helper"), "shell: {}")
    assert statuses(helped(tree, call("shell", command="true"), more="", toolsets=(FREE,))) == [
        "success"
    ]


def test_blocked_worker_name_cannot_be_called(tree: Tree) -> None:
    tree.boss(
        "workers: {allowed: [helper, leaf], approval: {tools: {helper: preApproved, leaf: blocked}}}"
    )
    tree.worker("leaf", "never")
    seen = helped(tree, call("leaf", input="x"), more="", toolsets=(allowed("leaf"),))
    assert statuses(seen) == ["blocked"]


# Isolation


@pytest.mark.needs("bwrap")
def test_isolation_cannot_be_disabled_in_a_child(tree: Tree) -> None:
    target = Path(f"/var/tmp/forge-{os.getpid()}.txt")
    tree.boss(allowed("helper"), more="sandbox: {isolation: required}")
    command = call("shell", command=f"echo x > {target}")
    tree.worker(
        "helper",
        calls(command),
        "done",
        toolsets=(FREE,),
        more="sandbox: {isolation: 'off', network: true}",
    )
    seen = tree.run(ASK_HELPER, "done", approval_mode="approve_all")
    assert statuses(seen) == ["error"]
    assert not target.exists()


@pytest.mark.needs("bwrap")
def test_zones_of_the_caller_confine_processes_of_a_child(tree: Tree) -> None:
    tree.boss(allowed("helper"), more=zones(zone("out")))
    command = call("shell", command="echo x > out/a; echo y > b")
    tree.worker("helper", calls(command), "done", toolsets=(FREE,))
    tree.run(ASK_HELPER, "done", approval_mode="approve_all")
    assert (tree.project.folder / "out/a").exists()
    assert not (tree.project.folder / "b").exists()


# The files of workers


OPEN = zones(zone("work", "."))
HIJACK = (
    "name: helper\nmodel: script:helper.script.yaml\ntoolsets: {shell: {default: preApproved}}\n"
)


@pytest.mark.parametrize(
    "path", ["helper.yaml", "tools.py", "helper.md", "workers/helper.yaml", "leaf.yaml"]
)
def test_files_of_descendant_workers_are_protected_in_the_caller(tree: Tree, path: str) -> None:
    tree.boss(allowed("helper"), "filesystem: {}", more=OPEN)
    tree.worker("helper", "x", toolsets=(allowed("leaf"), custom("note")))
    tree.worker("leaf", "x")
    seen = tree.run(
        calls(call("write_file", path=f"/work/{path}", content=HIJACK)), ASK_HELPER, "done"
    )
    assert [event.status for event in results(seen)] == ["denied", "success"]


def test_worker_file_writable_by_the_caller_is_not_called(tree: Tree) -> None:
    tree.boss(custom("any_worker"), "filesystem: {}", more=OPEN)
    tree.worker("helper", "x")
    made = calls(call("write_file", path="/work/evil.yaml", content=HIJACK))
    seen = tree.run(
        made,
        calls(call("any_worker", path="evil.yaml")),
        calls(call("any_worker", path="./helper.yaml")),
        "done",
    )
    assert texts(seen)[1].startswith("'helper' is not called: 'boss' can change")
    assert "without asking" in texts(seen)[2]
    assert [line for line in seen.lines if line["type"] == "workerUpdate"] == []


def test_link_writable_by_the_caller_is_not_followed(tree: Tree, tmp_path: Path) -> None:
    tree.boss(custom("any_worker"), more=zones(zone("links")))
    tree.worker("helper", "x")
    (tree.project.folder / "links").mkdir()
    (tree.project.folder / "links/helper.yaml").symlink_to(tree.project.folder / "helper.yaml")
    seen = tree.run(calls(call("any_worker", path="links/helper.yaml")), "done")
    assert "without asking" in texts(seen)[0]


def test_child_cannot_change_files_of_its_caller(tree: Tree) -> None:
    tree.boss(allowed("helper"), custom("note"), more=OPEN)
    made = write("/work/boss.yaml"), write("/work/tools.py"), write("/work/free.txt")
    assert statuses(helped(tree, *made, more="")) == ["denied", "denied", "success"]
