"""Rule sets that forge keeps: their own lines, everyday lines that do not ask, and harmful ones that do.

Covers forge_cli.bashrules.command_text, forge_cli.bashrules.sets.folders, forge_cli.bashrules.sets.rows,
forge_cli.bashrules.sets.secrets, forge_cli.bashrules.reads, forge_cli.bashrules.allow.find_exec.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge
from forge_cli.bashrules.rules import Rule, RuleList
from forge_cli.bashrules.sets.rows import DATA, rows_of
from forge_cli.testing import Project
from tests.support.rows import each_row

CASES = Path(__file__).parents[1] / "cases"
MOST_ASKED = 0.1
FILES = (
    "src/app.py src/util.py tests/test_util.py README.md pyproject.toml setup.py package.json a.txt b.txt data.csv "
    "data.txt names.txt Makefile .env"
)


@each_row("path", sorted(DATA.glob("*.yaml")))
def test_examples_of_each_set_hold(path: Path) -> None:
    name = path.stem
    judge = LineJudge([RuleList("", [Rule(use=name)])], Decision.ASK)
    failures = []
    for row in rows_of(name):  # type: ignore[arg-type]
        assert row.match, row.patterns
        for line in (*row.match.splitlines(), *row.not_match.splitlines()):
            verdict = judge.judge(line)
            if (verdict.decision is Decision.PRE_APPROVED) != (line in row.match.splitlines()):
                failures.append((line, verdict.reason))
    assert failures == []


@pytest.fixture
def repository(project: Project) -> Project:
    for file in FILES.split():
        project.write(file, "x\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    return project


UNHELD = "unheld.yaml"


@pytest.fixture
def unheld(repository: Project) -> Project:
    """A worker without confinement of reading lines."""
    sandbox = "sandbox: {isolation: off}"
    repository.write(
        UNHELD, f"name: w\n{sandbox}\ntoolsets: {{shell: {{rules: [{{use: reading}}]}}}}\n"
    )
    return repository


def verdicts(
    repository: Project, lines: list[str], worker: str = "coder"
) -> dict[str, tuple[str, str]]:
    calls = "".join(
        json.dumps({"tool": "shell", "input": {"command": line}}) + "\n" for line in lines
    )
    done = repository.forge("approve", worker, "--batch", "-", stdin=calls)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        line: (answer["verdict"], answer["reason"])
        for line, answer in zip(lines, answers, strict=True)
    }


def test_everyday_lines_seldom_ask(repository: Project) -> None:
    lines = [
        json.loads(line)["line"] for line in (CASES / "everyday.jsonl").read_text().splitlines()
    ]
    asked = {
        line: found
        for line, found in verdicts(repository, lines).items()
        if found[0] != "preApproved"
    }
    assert len(asked) <= MOST_ASKED * len(lines), asked


def test_harmful_lines_always_ask(repository: Project) -> None:
    found = verdicts(repository, (CASES / "harmful.txt").read_text().splitlines())
    assert {line: said for line, said in found.items() if said[0] == "preApproved"} == {}


def test_reads_stay_in_the_zones_and_avoid_secrets(repository: Project, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("x")
    os.symlink(tmp_path / "outside.txt", repository.folder / "link.txt")
    os.symlink(tmp_path, repository.folder / "linked")
    os.symlink(".env", repository.folder / "settings.txt")
    repository.write("config/.env.local", "KEY=1\n")
    inside = str(repository.folder / "README.md")
    found = verdicts(
        repository,
        [
            f"cat {inside}",
            "grep -rn x src",
            "rg x",
            "grep -rn x . --include='*.py'",
            "cat link.txt",
            "head link.txt",
            "grep -rn x .",
            "grep -rn x",
            "grep -R x config",
            "rg --hidden x",
            "rg -uu x config",
            "diff -r config src",
            f"cat {tmp_path}/outside.txt",
            "cat linked/*.txt",
            "head linked/out*",
            'for f in linked/*; do cat "$f"; done',
            "find linked/ -name '*.txt' | xargs cat",
            "cat settings.txt",
            "cat settings.*",
            "grep . ?ettings.txt",
        ],
    )
    assert [said for said, _ in found.values()] == ["preApproved"] * 4 + ["ask"] * 16, found
    assert found["cat link.txt"][1] == "link.txt leads out of the zones"
    assert found["grep -R x config"][1] == "it would read .env.local, which may hold secrets"


@pytest.mark.parametrize("spelled", ["relative", "absolute"])
def test_links_out_of_the_zones_ask(unheld: Project, tmp_path: Path, spelled: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text("x")
    for name in ("links", "inner/sub", "my links", "src"):
        (unheld.folder / name).mkdir(parents=True, exist_ok=True)
    os.symlink(outside, unheld.folder / "links" / "out")
    os.symlink(outside / "file.txt", unheld.folder / "my links" / "out.txt")
    os.symlink("sub", unheld.folder / "inner" / "link")
    at = "" if spelled == "relative" else f"{unheld.folder}/"
    free = [
        "grep -r x {}links",
        "rg x {}links",
        "ls -R {}links",
        "find {}links -name x",
        "diff {}inner {}src",
    ]
    options = [
        "grep -R x {}inner",
        "grep -nR x {}links",
        "grep --dereference-recursive x {}links",
        "rg -L x {}links",
        "rg -nL x {}inner",
        "rg --follow x {}links",
        "find -L {}links",
        "find {}links -follow",
        "ls -RL {}links",
        "du -L {}links",
        "tree -l {}links",
        "diff -r {}links {}src",
        "timeout 5 rg -L x {}links",
        "find {}links -name '*.txt' | xargs cat",
    ]
    named = [
        "cat {}links/out/file.txt",
        "cat {}links/out/*",
        "ls {}links/out/",
        "cat {}my\\ links/*",
        "cat {}my\\ links/[o]*",
        'for f in {}links/out/*; do cat "$f"; done',
        "tr a b < {}links/out/file.txt",
    ]
    lines = [line.replace("{}", at) for line in (*free, *options, *named)]
    found = verdicts(unheld, lines, UNHELD)
    assert _asks(found) == lines[len(free) :], found
    named_lines = lines[len(free) + len(options) :]
    assert _asks(verdicts(unheld, named_lines)) == named_lines


def test_shell_glob_matches_no_hidden_file(repository: Project) -> None:
    repository.write("config/.env.local", "KEY=1\n")
    found = verdicts(
        repository,
        [
            "cat *",
            "wc -l *",
            "ls -d */",
            "head */*",
            "cat .*",
            "cat ?env",
            "head */.*",
            "cat .e*/*",
        ],
    )
    assert [said for said, _ in found.values()] == ["preApproved"] * 4 + ["ask"] * 4, found


def test_glob_that_matches_a_folder_named_like_an_option_asks(repository: Project) -> None:
    lines = ["sort *.txt", 'for f in *.txt; do sort "$f"; done', "grep -r x . --include=*.t*t"]
    assert {said for said, _ in verdicts(repository, lines).values()} == {"preApproved"}
    for name in ("-oMakefile.txt", "--include=[.]env.txt"):
        (repository.folder / name).mkdir()
    found = verdicts(repository, [*lines, "sort *.csv"])
    assert [said for said, _ in found.values()] == ["ask", "ask", "ask", "preApproved"], found


def test_secrets_of_another_zone_ask(repository: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".env").write_text("KEY=1\n")
    (other / "a.txt").write_text("x")
    zones = f"[{{name: workspace, path: ., mode: rw}}, {{name: other, path: {other}, mode: ro}}]"
    shell = "toolsets: {shell: {rules: [{use: reading}]}}"
    repository.write("w.yaml", f"name: w\nsandbox: {{zones: {zones}}}\n{shell}\n")
    lines = [
        f"cat {other}/a.txt",
        f"grep -rn x {other}",
        f"rg --hidden x {other}",
        f"diff -r {other} src",
    ]
    found = verdicts(repository, lines, "w.yaml")
    assert [said for said, _ in found.values()] == ["preApproved", "ask", "ask", "ask"], found


def test_approve_command_names_the_row(repository: Project) -> None:
    done = repository.forge("approve", "coder", "shell", "command=git log -3 | head -5")
    assert done.returncode == 0
    assert "part:   git log -3 -> preApproved (toolsets.shell.rules[0] git log)" in done.stdout
    assert "part:   head -5 -> preApproved (toolsets.shell.rules[0] head)" in done.stdout
    assert "risk:   low" in done.stdout
    answer = json.loads(
        repository.forge("approve", "coder", "shell", "command=mypy src", "--json").stdout
    )
    assert answer["reason"] == "'mypy src' is 'mypy' in the rule set linting"
    assert (answer["rule"], answer["risk"]) == ("toolsets.shell.rules[2]", "high")


def test_earlier_blocking_or_asking_rule_overrides_a_set(repository: Project) -> None:
    rules = "[{pattern: git log, approval: ask}, {use: reading}, {pattern: cat, approval: blocked}]"
    repository.write("worker.yaml", f"name: w\ntoolsets: {{shell: {{rules: {rules}}}}}\n")
    found = verdicts(repository, ["git log", "cat README.md", "git diff"], "worker.yaml")
    assert [said for said, _ in found.values()] == ["ask", "blocked", "preApproved"]


def test_line_outside_a_set_is_judged_by_other_rules(repository: Project) -> None:
    """A set only pre-approves: a later rule may, or one of the user, or an answer for the session."""
    asks = {
        "git branch new": "git branch",
        "git tag v1": "git tag",
        "cat /etc/hosts": None,
        "cat .env": None,
    }
    repository.write("worker.yaml", "name: w\ntoolsets: {shell: {rules: [{use: reading}]}}\n")
    for line, pattern in asks.items():
        said = repository.forge("approve", "worker.yaml", "shell", f"command={line}").stdout
        offered = f'{{pattern: "{pattern}", approval: preApproved}}'
        assert said.startswith("ask: "), said
        assert (offered in said) if pattern else ("pattern:" not in said), said
    rules = "{pattern: git, approval: preApproved}, {pattern: cat, approval: preApproved}"
    repository.write(
        "later.yaml", f"name: w\ntoolsets: {{shell: {{rules: [{{use: reading}}, {rules}]}}}}\n"
    )
    covered = ["preApproved", "preApproved", "preApproved", "ask"]
    assert [said for said, _ in verdicts(repository, list(asks), "later.yaml").values()] == covered
    repository.home.mkdir(exist_ok=True)
    (repository.home / "config.yaml").write_text(f"policy: {{shell: {{rules: [{rules}]}}}}\n")
    assert [said for said, _ in verdicts(repository, list(asks), "worker.yaml").values()] == covered


def test_link_that_the_line_may_make_asks(repository: Project) -> None:
    rules = "".join(
        f", {{pattern: {name}, approval: preApproved}}" for name in ("ln", "tar", "mkdir", "cp")
    )
    repository.write(
        "worker.yaml", f"name: w\ntoolsets: {{shell: {{rules: [{{use: reading}}{rules}]}}}}\n"
    )
    lines = [
        "ln -s /etc e && cat e/passwd",
        "ln -s ../x q; find q/",
        "tar xf a.tar && head -3 out",
        "cp -a b c; cat c",
    ]
    plain = [
        "mkdir x && cat a.txt",
        "cat a.txt && ln -s a.txt z",
        "cp a.txt c.txt && git status",
        "ln -s a.txt b; pwd",
    ]
    found = verdicts(repository, [*lines, *plain], "worker.yaml")
    assert [said for said, _ in found.values()] == ["ask"] * 4 + ["preApproved"] * 4, found


def _asks(found: dict[str, tuple[str, str]]) -> list[str]:
    return [line for line, (verdict, _) in found.items() if verdict == "ask"]


def test_search_of_hidden_files_asks_in_every_spelling(unheld: Project) -> None:
    unheld.write("sub/.env", "KEY=1\n")
    asking = [
        "rg -0uu KEY sub",
        "rg -uu0 KEY sub",
        "rg -n0. KEY sub",
        "rg -A1uu KEY sub",
        "rg --hid KEY sub",
    ]
    asking += ["timeout 5 rg -0uu KEY", "grep -r KEY sub", "diff -rN sub src", "rg -g '*' KEY sub"]
    free = ["rg -n KEY src", "rg -uu KEY tests", "grep -rn KEY src"]
    for worker in ("coder", UNHELD):
        assert _asks(verdicts(unheld, [*asking, *free], worker)) == asking
    assert _asks(verdicts(unheld, ["rg -n KEY", "rg KEY sub"])) == []


def test_unconfined_line_asks_before_reading_listed_names(unheld: Project) -> None:
    unheld.write("sub/.env", "KEY=1\n")
    asking = [
        "find . -name sub | xargs rg -uu KEY",
        "find . -type d -name sub | xargs -n1 grep -r KEY",
        "ls | xargs -I{} rg -uu KEY {}",
        "find . -type d -name sub | xargs diff -rN tests",
        "diff -rN tests $(find . -name sub)",
        'for d in *; do diff -rN tests "$d"; done',
        'for d in s*; do grep -r KEY "$d"; done',
    ]
    free = [
        "find src -name '*.py' | xargs grep -n KEY",
        "find . -name sub | xargs ls",
        "ls | xargs rg KEY",
    ]
    assert _asks(verdicts(unheld, [*asking, *free])) == asking
    assert _asks(verdicts(unheld, [*asking, *free], UNHELD)) == [*asking, *free]


CHECKED = """
name: w
sandbox: {isolation: off, zones: [{name: p, path: ., mode: rw, approval: {write: preApproved}}]}
toolsets: {shell: {rules: [{use: reading, forms: checked}, {use: testing}]}}
"""


def test_checked_forms_look_at_what_a_listing_names(unheld: Project) -> None:
    unheld.write("sub/.env", "KEY=1\n")
    unheld.write("odd/-x.py", "")
    unheld.write("spaced/a b.py", "")
    os.symlink("/etc", unheld.folder / "linked")
    unheld.write("checked.yaml", CHECKED)
    free = [
        *("node --version", "go list ./...", "pip list", "npm ls", "rg -n KEY", "rg -l KEY sub"),
        "find src -name '*.py' | xargs wc -l",
        "rg --files src -g '*.py' | xargs head -2",
        "wc -l $(find src -name '*.py')",
    ]
    asking = [
        *("env", "printenv", "kubectl version --client", "rg -uu KEY", "rg --files | xargs cat"),
        "find . -name '.e*' | xargs cat",
        "find odd -name '*.py' | xargs cat",
        "find spaced -name '*.py' | xargs cat",
        "ls | xargs grep -r x",
        "find sub | xargs cat",
        "wc -l $(git ls-files '*.py')",
        "echo x > src/--files0-from=.env; find src -name '*' | xargs wc",
        "find src -name '*.py' | xargs rm",
    ]
    assert _asks(verdicts(unheld, [*free, *asking], "checked.yaml")) == asking


def test_freely_writable_folder_asks_only_before_programs_that_may_obey_its_files(
    unheld: Project,
) -> None:
    unheld.write("bare/objects/x", "")
    unheld.write("bare/refs/x", "")
    unheld.write("bare/sub/a", "")
    os.symlink("src", unheld.folder / "linked")
    unheld.write("checked.yaml", CHECKED)
    free = [
        "cd src && ls",
        "(cd src && wc -l *.py)",
        "cd src && git status",
        "cd src; ls; cd ..; ls",
    ]
    asking = {
        "cd src && pytest": "src has files that are written without asking, and pytest may obey",
        "cd src && make test": "src has files that are written without asking, and make may obey",
        "cd bare && git status": "bare may be a repository",
        "cd bare/sub && git log": "bare/sub may be a repository",
        "git -C bare status": "no rule allows",
        "cd nowhere && ls": "nowhere does not exist",
        "cd a.txt && ls": "a.txt is not a folder",
        "cd linked && ls": "linked is a link, or is reached through one",
    }
    found = verdicts(unheld, [*free, *asking], "checked.yaml")
    assert _asks(found) == list(asking), found
    assert [line for line, why in asking.items() if why not in found[line][1]] == [], found


@pytest.mark.parametrize(
    "name", [".ignore", ".gitignore", ".rgignore", ".git/info/exclude", "sub/.ignore"]
)
def test_search_asks_if_a_file_may_include_secrets(unheld: Project, name: str) -> None:
    unheld.write("sub/.env", "KEY=1\n")
    unheld.write(name, "x\n!.env*\n")
    asking = [
        "rg KEY",
        "rg -l KEY | xargs cat",
        "rg --files | xargs cat",
        "fd . | xargs rg KEY",
        "rg KEY sub",
    ]
    assert _asks(verdicts(unheld, [*asking, "rg KEY src"], UNHELD)) == asking
    unheld.write("checked.yaml", CHECKED)
    assert _asks(verdicts(unheld, asking, "checked.yaml")) == asking


def test_example_of_settings_may_be_searched(repository: Project) -> None:
    repository.write(".env.example", "KEY=\n")
    repository.write(".gitignore", ".env*\n!.env.example\nbuild\n")
    assert _asks(verdicts(repository, ["rg KEY", "rg --files"])) == []


def test_git_compares_plain_folders_outside_of_a_repository(project: Project) -> None:
    project.write(
        "w.yaml",
        "name: w\nsandbox: {isolation: off}\ntoolsets: {shell: {rules: [{use: reading}]}}\n",
    )
    for file in ("one/.env", "one/a.txt", "two/a.txt", "repo/src/.env", "repo/a.txt"):
        project.write(file, "KEY=1\n")
    subprocess.run(["git", "init", "-q", "repo"], cwd=project.folder, check=True)
    (project.folder / "empty/.git").mkdir(parents=True)
    asking = [
        "git diff one two",
        "git diff . two",
        "git --no-pager diff one two",
        "git diff --stat one two",
        "ls | xargs git diff",
        "cd repo && git diff src {}/one",
    ]
    free = ["git diff two/a.txt one/a.txt", "cd repo && git diff src", "git status"]
    lines = [line.replace("{}", str(project.folder)) for line in (*asking, *free)]
    assert _asks(verdicts(project, lines, "w.yaml")) == lines[: len(asking)]


def test_npx_is_covered_if_its_tool_is_installed(repository: Project) -> None:
    lines = [
        "npx tsc --noEmit 2>&1 | head -5",
        "npx eslint src",
        "npx jest --ci",
        "pnpm exec vitest run",
    ]
    before = verdicts(repository, lines)
    for tool in ("tsc", "eslint", "jest", "vitest"):
        repository.write(f"node_modules/.bin/{tool}", "x\n")
    after = verdicts(repository, lines)
    assert [said for said, _ in before.values()] == ["ask"] * 4, before
    assert (
        before["npx eslint src"][1]
        == "eslint is not installed in node_modules, so it may be downloaded"
    )
    assert [said for said, _ in after.values()] == ["preApproved"] * 4, after


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("main.go", "ask"),
        ("main.go util_test.go testdata/a/b.go vendor/c/c.go", "ask"),
        ("main.go tools/go.mod tools/t.go", "ask"),
        ("main.go sys/sys_windows.go", "ask"),
        ("main.go tagged/only.go", "ask"),
        ("main.go _old/x.go .git2/y.go", "ask"),
        ("main.go pkg/a/a.go", "preApproved"),
        ("pkg/a/a.go pkg/b/b.go", "preApproved"),
    ],
)
def test_go_build_is_covered_if_it_writes_no_program(
    repository: Project, files: str, said: str
) -> None:
    for file in files.split():
        repository.write(
            file, "//go:build ignore\n\npackage x\n" if "tagged" in file else "package x\n"
        )
    found = verdicts(repository, ["go build ./..."])
    assert found["go build ./..."][0] == said, found


def test_sets_apply_in_the_folders_of_the_project(repository: Project, tmp_path: Path) -> None:
    for folder in ("backend", "node_modules/x", ".hidden", "web/app"):
        repository.write(f"{folder}/a.txt", "x\n")
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", repository.folder / "linked")
    found = verdicts(
        repository,
        [
            "cd backend && go test ./...",
            "cd web/app && npm test 2>&1 | tail -20",
            f"cd {repository.folder}/backend && mypy src",
            "cd web && cd app && npm run lint",
            "cd linked && go test ./...",
            "cd node_modules/x && npm test",
            "cd .hidden && make test",
            "cd .. && make test",
            "cd nowhere && make test",
        ],
    )
    assert [said for said, _ in found.values()] == ["preApproved"] * 4 + ["ask"] * 5, found


def test_path_may_leave_a_folder_and_stay_inside_the_project(
    repository: Project, tmp_path: Path
) -> None:
    repository.write("web/app/a.ts", "x\n")
    repository.write("web/.env", "KEY=1\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "x").write_text("x")
    os.symlink(tmp_path / "deep", repository.folder / "linked")
    os.symlink(tmp_path, repository.folder / "out")
    os.symlink(".env", repository.folder / "web/settings")
    free = [
        "cd src && cat ../README.md",
        "cd src && ls ..",
        "cd web/app && head -3 ../../src/app.py",
        "cd src && grep -rn x ../tests",
        "cd src && git diff ../README.md | head",
        "cd src && wc -l ../tests/*.py ../README.md",
    ]
    asking = [
        "cd src && cat ../../x",
        "cd src && cat ../.env",
        "cd web/app && cat ../settings",
        "cd web/app && grep -r KEY ..",
        "cd linked && cat ../a.txt",
        "cd src && cat ../out/x",
        "cd src && ls ../out",
        "cd src && cat ../web/../../x",
        "cd nowhere; cat ../a.txt",
        "cd src | cat ../a.txt",
        "cd src & cat ../a.txt",
        "(cd src); cat ../a.txt",
        "cd src && cat --files0-from=../a.txt",
        "cd src && sort -o ../a.txt ../b.txt",
        "cd src && git show HEAD:../../x",
        "cat ../README.md",
    ]
    assert _asks(verdicts(repository, [*free, *asking])) == asking


def test_git_in_a_project_folder_is_covered(repository: Project, tmp_path: Path) -> None:
    repository.write("web/app/a.ts", "x\n")
    os.symlink(tmp_path, repository.folder / "out")
    free = [
        "git -C src status",
        "git -C web log --oneline -3 | head",
        "git -C web -C app diff --stat",
        f"git -C {repository.folder}/web status -sb",
        "cd web && git -C app status",
        "LC_ALL=C git -C src log -1",
    ]
    asking = [
        "git -C .. status",
        "git -C out status",
        "git -C web -C ../.. status",
        "git -C / log",
        "git -C $x status",
        "git -C web commit -m x",
        "git -C web branch -D x",
        "git -C web log --output=x",
        "git -C web -c core.pager=x log",
        "git -C web diff --no-index ../.env a",
        "git -C",
        "git -C web",
    ]
    assert _asks(verdicts(repository, [*free, *asking])) == asking


def test_find_may_start_reading_commands(unheld: Project) -> None:
    unheld.write("sub/.env", "KEY=1\n")
    free = [
        "find src -name '*.py' -exec grep -n x {} +",
        "find src -type f -exec cat {} \\;",
        "find . -name '*.py' -exec wc -l {} + | tail -1",
        "find . -name '*.py' -exec grep -l x {} \\; 2>/dev/null | wc -l",
        "cd src && find . -name '*.py' -exec head -3 {} +",
    ]
    asking = [
        "find . -type f -exec cat {} +",
        "find sub -exec cat {} +",
        "find . -name '.e*' -exec cat {} \\;",
        "find . ! -name x -exec grep KEY {} +",
        "find . -name '*.py' -exec rm {} +",
        "find . -name '*.py' -exec cat .env {} +",
        "find . -name '*.py' -exec sed -i s/a/b/ {} +",
        "find . -name '*.py' -exec sort {} -o a.txt \\;",
        "find src -name '*.py' -exec cat {} + > out.txt",
        "find .. -name '*.py' -exec cat {} +",
        "find src -name '*.py' -exec grep -l x {} + | xargs rm",
    ]
    assert _asks(verdicts(unheld, [*free, *asking])) == asking
    assert _asks(verdicts(unheld, [*free, *asking], UNHELD)) == [*free, *asking]


def test_names_of_secrets_may_be_listed_and_searched(repository: Project) -> None:
    repository.write(".env.example", "KEY=\n")
    os.symlink(".env", repository.folder / ".env.sample")
    found = verdicts(
        repository,
        [
            "ls -la .env",
            "test -f .env && echo there",
            "find . -maxdepth 1 -name '.env*'",
            "grep -n .env README.md",
            "cat .env.example",
            f"find {repository.folder}/src -name '*.py' | xargs wc -l",
            "cat .env.sample",
            "grep .env .env",
            "find . -name '.env*' | xargs cat",
            f"find {repository.folder} -name '.env*' | xargs cat",
            f"find {repository.folder.parent} -name '*.py' | xargs cat",
            "find . -name '.env*' -exec cat {} +",
            "cat $(ls .env)",
        ],
    )
    assert [said for said, _ in found.values()] == ["preApproved"] * 6 + ["ask"] * 7, found


def test_only_plain_forms_count_without_confinement(unheld: Project) -> None:
    asking = [
        *("cargo --version", "rustc -V", "node -v", "java -version", "cargo version", "git --help"),
        *(
            "time npm --version",
            "cargo metadata --no-deps",
            "go list ./...",
            "go doc fmt",
            "go env",
            "go version",
        ),
        *(
            "npm ls",
            "pip list",
            "kubectl version --client",
            "env",
            "printenv TOKEN",
            "cat a.txt | xargs printenv",
        ),
        *(
            "wc -l $(git ls-files '*.py')",
            "find src -name '*.py' | xargs wc -l",
            "rg --files | xargs head -1",
        ),
        *(
            "rg -l x src | xargs cat",
            "for f in $(git ls-files); do cat $f; done",
            "git ls-files | xargs -I{} cat {}",
        ),
    ]
    plain = [
        *(
            "cat a.txt",
            "grep -rn x src",
            "rg x src",
            "git status",
            "git log -3",
            "find . -name a.txt",
            "ls | wc -l",
        ),
        *(
            "which go",
            "wc -l *.txt src/*.py",
            'for f in *.txt; do head -1 "$f"; done',
            "sed -n 1,5p a.txt",
        ),
        *(
            "cd src && cat app.py",
            "cat a.txt | sort | uniq -c",
            'echo "$(date)"',
            "git diff $(git merge-base main HEAD)",
        ),
    ]
    assert _asks(verdicts(unheld, [*asking, *plain], UNHELD)) == asking


def test_line_that_other_rules_allow_is_not_confined(repository: Project) -> None:
    """It runs as any other command, so that of reading only plain forms count in it."""
    asking = ["node --version; pytest", "pytest && rg --files | xargs head -1", "npm test; go env"]
    free = [
        "node --version",
        "rg --files | xargs head -1",
        "pytest 2>&1 | tail -5",
        "cat a.txt; npm test",
    ]
    assert _asks(verdicts(repository, [*asking, *free])) == asking
    repository.write(
        "off.yaml",
        "name: w\ntoolsets: {shell: {try: off, rules: [{use: reading}, {use: linting}]}}\n",
    )
    lines = ["node --version; mypy src", "mypy src", "node --version"]
    assert _asks(verdicts(repository, lines, "off.yaml")) == lines[:1]


def test_interactive_session_accepts_only_plain_forms(repository: Project) -> None:
    lines = {
        "node --version": "ask",
        "find src -name '*.py' | xargs wc -l": "ask",
        "cat a.txt": "preApproved",
    }
    calls = [json.dumps({"tool": "exec_command", "input": {"command": line}}) for line in lines]
    repository.write("w.yaml", "name: w\ntoolsets: {shell: {rules: [{use: reading}]}}\n")
    done = repository.forge("approve", "w.yaml", "--batch", "-", stdin="\n".join(calls))
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == list(
        lines.values()
    ), done.stderr
