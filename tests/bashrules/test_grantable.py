"""The patterns that a person may be offered for a command line: meaningful ones only, each a rule that would help.

Covers forge_cli.bashrules.allow.hazards, forge_cli.bashrules.programs.variables.
"""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge, Verdict, judge_line
from forge_cli.bashrules.rules import Rule, RuleList

from .conftest import rule_of

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "shell_rules.jsonl")
    .read_text("utf-8")
    .splitlines()
]
WORDS = st.sampled_from(
    [
        "git",
        "commit",
        "push",
        "pytest",
        "ls",
        "-l",
        "rm",
        "-rf",
        "npm",
        "test",
        "env",
        "bash",
        "x",
        "a b",
        "*",
        "cd",
    ]
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda words: " ".join(f"'{w}'" if " " in w else w for w in words)
)
JOINS = st.sampled_from([" && ", " | ", "; ", " || ", "\n"])
PIECES = st.one_of(
    COMMANDS, st.sampled_from(["$(x)", "`x`", "> out", "2>&1", "<<E\nE\n", "FOO=1 ", "&", "{", "}"])
)
LINES = st.lists(st.tuples(PIECES, JOINS), min_size=1, max_size=3).map(
    lambda parts: "".join(piece + join for piece, join in parts)
)
PATTERNS = st.sampled_from(
    ["git", "git push", "git commit", "ls", "rm", "npm", "pytest", "bash x", "env"]
)
RULES = st.lists(st.builds(Rule, pattern=PATTERNS, decision=st.sampled_from(Decision)), max_size=3)
DEFAULTS = st.sampled_from(Decision)


def grantable(line: str, *rules: str) -> tuple[str, ...]:
    asking = [Rule(pattern=pattern, decision=Decision.ASK) for pattern in rules]
    return judge_line(line, asking, Decision.ASK, writable=["scratch"]).grantable


OFFERED = {
    "pytest -x tests": ("pytest",),
    "git commit -m 'a b'": ("git commit",),
    "npm test": ("npm test",),
    "npm run build": ("npm run build",),
    "npm run -s build": ("npm run -s build",),
    "deno run -A x.ts": ("deno run -A x.ts",),
    "docker ps": ("docker ps",),
    "pytest -x 2>&1 | tail -5": ("pytest", "tail"),
    "pytest a; pytest b": ("pytest",),
    "git add . && git commit -m x": ("git add", "git commit"),
    "ls > scratch/out": ("ls",),
    "python3 -m unittest -v": ("python3 -m unittest",),
    "python x.py --all": ("python x.py",),
    "python -W error x.py --all": ("python -W error x.py",),
    "python -W error -m pytest -q": ("python -W error -m pytest",),
    "uv run pytest -x": ("uv run pytest",),
    "node x.js": ("node x.js",),
    "if true; then ls; fi": ("true", "ls"),
    "make build": ("make build",),
    "gh repo view": ("gh repo view",),
    "gh pr view 1": ("gh pr view",),
    "aws s3 ls": ("aws s3 ls",),
    "gcloud compute instances list --limit 3": ("gcloud compute instances list",),
    "terraform state list": ("terraform state list",),
    "git stash list": ("git stash list",),
    "npm token list": ("npm token list",),
    "uv pip list": ("uv pip list",),
    "python3 -m pip list": ("python3 -m pip list",),
    "vault kv get x/y": ("vault kv get",),
    "pulumi stack ls": ("pulumi stack ls",),
    "some-program x.txt": ("some-program",),
    "git checkout main": ("git checkout main",),
    "git checkout -b x": ("git checkout -b",),
    "git checkout -q -b x": ("git checkout -q -b x",),
    "git switch -c x": ("git switch -c",),
    "git switch main": ("git switch main",),
    "git stash push -m x": ("git stash push",),
    "git stash": ("git stash push",),
    "PYTHONPATH=src python3 -m unittest -v": ("PYTHONPATH=src python3 -m unittest",),
    "CI=true A= npm test && DEBUG=1 pytest": ("CI=true A= npm test", "DEBUG=1 pytest"),
    "git stash -u": ("git stash push",),
    "git branch x": ("git branch",),
    "git -C sub checkout -b x": ("git -C sub checkout -b",),
    "git push origin main": ("git push",),
    "docker compose down": ("docker compose down",),
    "docker compose -f x down": ("docker compose -f x down",),
    "kubectl get po": ("kubectl get",),
    "rake db:migrate": ("rake db:migrate",),
}
NEVER_OFFERED = [
    *(
        "python",
        "python3 -c 1",
        "node",
        "java -jar x",
        "awk 1 x",
        "rm -rf build",
        "rm x",
        "mv a b",
        "chmod +x a",
        "make",
    ),
    *(
        "bash x.sh",
        "sh -c ls",
        "env pytest",
        "sudo ls",
        "xargs rm",
        "timeout 5 pytest",
        "nohup ls",
        "strace ls",
    ),
    *("npx tsc", "docker run x", "eval ls", "export A=1", "vim x"),
    *("./run.sh", "/bin/ls", "git", "git -c a=b status"),
    *(
        "ls $(x)",
        "ls `x`",
        "ls $X",
        "FOO=$X ls",
        "FOO='a b' ls",
        "PATH=x ls",
        "FOO=1",
        "FOO=1 rm x",
        "FOO=1; ls",
        "ls > out",
        "ls &> out",
        "find . -delete",
        "sed -i s/a/b/ x",
    ),
    *(
        "case a in a) ls;; esac",
        "ls; $X",
        "cd .. && ls",
        "cd src && pytest",
        "",
        "# only a comment",
        "'unclosed",
    ),
    *("git worktree", "npm run", "yarn run", "rake", "rake 'deploy[x]'"),
    *(
        "git checkout -- a",
        "git checkout .",
        "git checkout HEAD a",
        "git checkout -f main",
        "git checkout -B x",
    ),
    *(
        "git switch -f x",
        "git switch --discard-changes x",
        "git switch -C x",
        "git restore a",
        "git reset",
        "git clean -fd",
    ),
    *(
        "git rebase main",
        "git stash pop",
        "git stash drop",
        "git stash clear",
        "git branch -D x",
        "git branch -m x y",
    ),
    *(
        "git push --force",
        "git push origin +main",
        "git push origin :x",
        "git push --mirror",
        "git push --delete o x",
    ),
    *(
        "git commit --amend",
        "git merge --abort",
        "git rm x",
        "git tag -d v1",
        "git worktree remove x",
        "git reflog expire",
    ),
    *(
        "env A=1 git checkout -b x",
        "git -c alias.x=reset x",
        "git -C sub reset --hard",
        "git -C sub checkout .",
    ),
    *(
        "for x in a b; do break; done",
        "while ls; do continue; done",
        "break",
        "exit 3",
        "if ls; then exit 1; fi",
    ),
    *("wait", "wait 5", "jobs -l", "fg", "docker compose", "docker compose -f x"),
    *(
        "curl http://h/x",
        "curl -s -X DELETE http://h",
        "wget http://h",
        "rm -r build",
        "rm build",
        "kill term",
        "mv x y",
    ),
    *(
        "chmod go-w x",
        "docker compose down -v",
        "docker compose -f x down --volumes",
        "docker-compose down --rmi all",
    ),
    *(
        "docker rm x",
        "docker volume rm x",
        "docker system prune -af",
        "docker compose rm x",
        "kubectl delete pod x",
    ),
    *("mount", "iptables -L", "fdisk -l /dev/sda"),
    *("pytest && python", "ls | sh", "l*", "'a b' c"),
]


def test_form_of_a_command_is_offered() -> None:
    assert {line: grantable(line) for line in OFFERED} == OFFERED


def test_unanalysable_commands_and_starters_are_not_offered() -> None:
    assert {line: offered for line in NEVER_OFFERED if (offered := grantable(line))} == {}


def test_pattern_that_would_be_too_wide_is_not_suggested() -> None:
    lines = [
        "rm -rf /",
        "curl -X DELETE http://h/x",
        "mv a b",
        "kill 1",
        "chmod +x a",
        "for x in a; do break; done",
    ]
    advised = {
        line: judge_line(
            line, [Rule(pattern="true", decision=Decision.PRE_APPROVED)], Decision.ASK
        ).suggestion
        for line in lines
    }
    assert advised == dict.fromkeys(lines)


REASONS = {
    "curl -o /dev/null http://h": "no rule allows 'curl -o /dev/null http://h', so you are asked",
    "cd src && foo": "'foo': no rule allows it outside of the working directory",
    "cat list | xargs grep foo": "'xargs grep foo': xargs adds words that are not known",
    "git checkout -f x": "'git checkout -f x': -f may discard or rewrite work; a rule can name it",
}


def test_reasons_describe_the_line() -> None:
    rules = [
        Rule(pattern=pattern, decision=Decision.PRE_APPROVED)
        for pattern in ("cd src", "cat", "git checkout")
    ]
    rules.append(Rule(use="reading"))
    assert {line: judge_line(line, rules, Decision.ASK).reason for line in REASONS} == REASONS
    assert judge_line("echo .env exists", rules, Decision.ASK).decision is Decision.PRE_APPROVED
    assert judge_line("echo .en*", rules, Decision.ASK).decision is Decision.ASK


def test_explicit_rule_prevents_an_offer() -> None:
    assert grantable("git push", "git push") == ()
    assert grantable("ls && git push", "git push") == ()
    assert grantable("git pull", "git push") == ("git pull",)


def offered(found: Verdict) -> list[Rule]:
    return [Rule(pattern=pattern, decision=Decision.PRE_APPROVED) for pattern in found.grantable]


@given(LINES, RULES, DEFAULTS)
def test_offered_rule_pre_approves_the_line(
    line: str, rules: list[Rule], default: Decision
) -> None:
    found = judge_line(line, rules, default)
    if not found.grantable:
        return
    assert found.decision is Decision.ASK
    assert all(part.match is None for part in found.parts if part.decision is Decision.ASK)
    chosen = offered(found)
    both = LineJudge([RuleList("", rules), RuleList("more", chosen)], default).judge(line)
    assert both.decision is Decision.PRE_APPROVED
    assert judge_line(line, [*rules, *chosen], default).decision is Decision.PRE_APPROVED


@given(LINES, LINES, RULES, DEFAULTS)
def test_granted_rule_covers_other_lines_like_a_written_one(
    first: str, second: str, rules: list[Rule], default: Decision
) -> None:
    given_patterns = judge_line(first, rules, default).grantable
    found = judge_line(second, rules, default)
    if found.grantable and set(found.grantable) <= set(given_patterns):
        assert (
            judge_line(second, [*rules, *offered(found)], default).decision is Decision.PRE_APPROVED
        )


def test_offers_are_sound_for_every_case() -> None:
    wrong = []
    for case in CASES:
        rules, default = [rule_of(rule) for rule in case["rules"]], Decision(case["default"])
        writable = case.get("writable", ())
        found = judge_line(case["command"], rules, default, writable=writable)
        given_now = judge_line(
            case["command"], [*rules, *offered(found)], default, writable=writable
        )
        sound = not found.grantable or given_now.decision is Decision.PRE_APPROVED
        wrong += [] if sound and (not found.grantable or case["expect"] == "ask") else [case["id"]]
    assert wrong == []
