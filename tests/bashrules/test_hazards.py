"""Lines that ask although a rule matches. Programs are tested in test_programs.

Covers forge_cli.bashrules.allow.folders, forge_cli.bashrules.allow.hazards,
forge_cli.bashrules.allow.redirects.
"""

from forge_cli.bashrules.decision import Decision

from .conftest import Judge, others_than

PRE, ASK = Decision.PRE_APPROVED, Decision.ASK

# fmt: off
WRITES = [
    ("ls > scratch/o", True), ("ls >> scratch/a/b", True), ("ls > ./scratch/o 2>&1", True), ("ls &> scratch/o", True),
    ("ls >& scratch/o", True), ("ls > 'scratch/a b'", True), ("ls > scratch/$", True),
    ("{ ls; ls; } > scratch/o", True), ("ls > /dev/null 2>/dev/null <&-", True), ("ls < a.txt", True),
    ("ls < src/a", True), ("ls < /dev/null", True), ("ls <<< x", True), ("ls >&2", True), ("ls 3>&1 >&3-", True),
    ("ls > o", False), ("ls > scratch", False), ("ls > scratch/", False), ("ls > scratchy/o", False),
    ("ls > scratch/../o", False), ("ls > ../o", False), ("ls > /scratch/o", False), ("ls > scratch/o > o", False),
    ("ls 2> o", False), ("ls >| o", False), ("ls <> o", False), ("ls &>> o", False), ("ls > scratch/*", False),
    ("ls > scratch/.git/config", False), ("ls > scratch/.ENV", False), ("ls > /dev/tcp/127.0.0.1/9", False),
    ("ls < ../o", False), ("ls < /etc/passwd", False), ("ls < .env", False), ("ls < a/../../b", False),
    ("ls >& /dev/null", True), ("ls >& /etc/x", False),
    ("{ ls; ls; } > o", False), ("> scratch/o", False), ("cd src && ls > scratch/o", False),
    ("cd src && ls < a.txt", True), ("ls >&'scratch/$(id)'", False), ("ls > 'scratch/$(id)'", True),
]
MOVED = [
    ("cd src && ls", True), ("cd src && cat a.txt | grep x", True), ("cd src && git status", True),
    ("cd src; git log | head", True), ("cd . && ./x", True), ("cd src/.. && ./x", True), ("cd src/../.. && ls", False),
    ("(cd src && pwd)", True),
    ("ls src && ./x", True), ("./x && cd src", True), ("make && cd src && ls", True), ("echo cd src; ./x", True),
    ("git -C src status", True), ("git -C src -C sub log", True), ("cd src && git -C sub diff", True),
    ("cd src && ./x", False), ("cd src; ./x", False), ("cd src || ./x", False), ("cd src & ./x", False),
    ("(cd src); ./x", False), ("cd src | ./x", False), ("cd src && make", False), ("cd src\nmake", False),
    ("cd src && python x.py", False), ("cd src && bash x.sh", False), ("cd src && npm test", False),
    ("cd src && git commit -m x", False), ("cd src && git pull", False), ("cd src && unknown", False),
    ("builtin cd src && ./x", False), ("command cd src && ./x", False), ("time cd src && ./x", False),
    ("\\cd src && ./x", False), ("c''d src && ./x", False), ("cd -- src && ./x", False), ("eval cd src && ./x", False),
    ("cd src && cd sub && ./x", False), ("cd src && cd .. && ls", False), ("cd s*c && ls", False),
    ("cd scratch && ls", False), ("cd scratch && echo x", False), ("cd src && cd scratch && ls", False),
    ("cd scratch/deep && git status", False), ("cd ./scratch/ && ls", False), ("cd src/../scratch && ls", False),
    ("git -C scratch status", False), ("git -C src commit -m x", False), ("git -C . -C scratch status", False),
    ("cd scratch && git -C x status", False), ("cd src && ls > scratch/o", False), ("cd src && ls < a.txt", True),
]
LINKED = [
    ("git checkout -q evil; echo id > scratch/sub/x", False), ("ln -s /tmp scratch/l; echo x > scratch/l/x", False),
    ("ln -s /tmp scratch/l | echo x > scratch/l/x", False), ("make && echo x > scratch/l", False),
    ("{ sleep 1; echo x > scratch/l/x; } | ln -s /tmp scratch/l", False), ("mv a b || echo x >> scratch/l", False),
    ("(sleep 1; echo x > scratch/l/x) & ln -s /tmp scratch/l", False), ("cp -a a b; echo x &> scratch/l", False),
    ("sleep 1 && echo x > scratch/l/x & git checkout evil", False), ("tar xf a\necho x > scratch/l", False),
    ("{ { sleep 1; echo x > scratch/l; } | cat; } & true; make", False), ("git pull; cat a | sort > scratch/l", False),
    ("git checkout evil && cd src && git status", False), ("git checkout evil; git -C src status", False),
    ("{ git checkout evil; echo x; } > scratch/l", False), ("timeout 5 make; echo x > scratch/l", False),
    ("echo a > scratch/x; echo b > scratch/y", True), ("mkdir -p scratch/d && echo x > scratch/d/f", True),
    ("cat a > scratch/b", True), ("git log | head > scratch/o", True), ("make > scratch/log", True),
    ("echo a > scratch/x; make", True), ("echo a > scratch/x; cat y | make", True), ("make && echo done", True),
    ("cat x | sort > scratch/y; make", True), ("make && cd src && ls", True), ("make 2>&1 | tail -5", True),
    ("touch scratch/a; echo b >> scratch/a", True), ("git status > scratch/a; git diff > scratch/b", True),
    ("make > /dev/null 2>&1; make 2>/dev/null", True), ("(echo x > scratch/a); make", True),
    ("sleep 1 & echo x > scratch/a; make", True), ("make; git status", True),
]
# fmt: on
MOVED_RULES = [
    "cd",
    "ls",
    "cat",
    "grep",
    "head",
    "git",
    "make",
    "npm",
    "unknown",
    "pwd",
    "echo",
    "./x",
]
MOVED_RULES += ["python x.py", "bash x.sh", "builtin cd", "command cd", "time cd", "eval cd"]
LINKED_RULES = ["timeout 5 make", *(word for word in MOVED_RULES if " " not in word)]
LINKED_RULES += ["ln", "mv", "cp", "tar", "sort", "tail", "head", "mkdir", "touch", "sleep", "true"]
SECRETS = [
    *(
        ".env",
        "sub/.env.local",
        "./.ENV",
        "--file=.env",
        "-f=a,.env",
        "@.env",
        "a=@sub/.env",
        "HEAD:.env",
        "x .env",
    ),
    *(".*", ".e*", ".en?", "sub/.e[n]v", ".env*"),
]
NO_SECRETS = ["env", "a.env", "'x .env'", ".gitignore", ".git*", "x*.env", "sub/*", ".", "..env"]


def misjudged(cases: list[tuple[str, bool]], **rules: object) -> list[str]:
    """Lines that are covered and should not be, or the reverse."""
    covered = [line for line, expected in cases if expected]
    asked = [line for line, expected in cases if not expected]
    return others_than(PRE, covered, **rules) + others_than(ASK, asked, **rules)


def test_name_of_a_secret_asks_unless_the_rule_names_it() -> None:
    assert others_than(ASK, [f"cat {words}" for words in SECRETS], allow=["cat"]) == []
    lines = [f"cat x && cat {words}" for words in SECRETS]
    assert others_than(Decision.BLOCKED, lines, allow=["cat"], default=Decision.BLOCKED) == []
    assert [
        why
        for words in SECRETS
        for why in others_than(PRE, [f"cat {words}"], allow=[f"cat {words}"])
    ] == []
    assert others_than(PRE, [f"cat {words}" for words in NO_SECRETS], allow=["cat"]) == []


def test_redirections_write_below_writable_folders_and_read_below_the_working_directory() -> None:
    assert misjudged(WRITES, allow=["ls", "cd"], writable=["scratch"]) == []


def test_rule_applies_to_the_working_directory() -> None:
    assert misjudged(MOVED, allow=MOVED_RULES, writable=["scratch"]) == []


RUN_WRITTEN = [
    *(
        "pytest scratch/test_x.py",
        "pytest ./scratch",
        "pytest tests/../scratch/a.py",
        "pytest --ignore=a scratch",
    ),
    *(
        "pytest scratch/a.py::test_b",
        "go test ./scratch/...",
        "go vet ./scratch",
        "eslint scratch",
        "mypy -p scratch.m",
    ),
    *(
        "npm test -w scratch",
        "npm test -wscratch",
        "npm test --workspace=scratch",
        "python scratch/x.py",
        "make scratch",
    ),
    *(
        "cargo test --manifest-path=scratch/Cargo.toml",
        "unknown scratch/x",
        "unknown --a=scratch/x",
        "unknown a:scratch",
    ),
    *(
        "python -m scratch.m",
        "timeout 5 make scratch/x",
        "tsc scratch/a.ts",
        "node scratch/x.js",
        "ruff check scratch",
    ),
]
NOT_RUN = [
    *(
        "cat scratch/x",
        "grep -r x scratch",
        "git add scratch/x",
        "rm scratch/x",
        "cp a scratch/b",
        "tar cf a.tar scratch",
    ),
    *(
        "mkdir -p scratch/d",
        "pytest tests",
        "pytest scratchy/x",
        "make scratching",
        "unknown src/scratch",
        "go test ./...",
    ),
]


def test_file_in_a_freely_writable_folder_does_not_run_without_asking() -> None:
    names = "pytest go eslint mypy npm python make cargo unknown tsc node ruff cat grep git rm cp tar mkdir"
    allow = [*names.split(), "timeout 5 make"]
    assert others_than(ASK, RUN_WRITTEN, allow=allow, writable=["scratch"]) == []
    assert others_than(PRE, NOT_RUN, allow=allow, writable=["scratch"]) == []
    assert (
        others_than(
            PRE, ["pytest scratch/a.py"], allow=["pytest scratch/a.py"], writable=["scratch"]
        )
        == []
    )
    assert others_than(PRE, ["pytest scratch/a.py"], allow=["pytest"], writable=["."]) == []


def test_rule_may_name_another_folder(judge: Judge) -> None:
    assert (
        judge("git -C scratch commit -m x", allow=["git -C scratch"], writable=["scratch"]).decision
        is PRE
    )


def test_too_many_possible_folders_ask(judge: Judge) -> None:
    line = "; ".join(f"cd d{number}" for number in range(5000))
    assert judge(f"{line}; ls", allow=["cd", "ls"]).decision is ASK


def test_writing_asks_if_the_line_may_have_made_links() -> None:
    assert misjudged(LINKED, allow=LINKED_RULES, writable=["scratch"]) == []
    assert misjudged(LINKED, default=PRE, writable=["scratch"]) == []


def test_writable_folder_may_be_spelled_freely(judge: Judge) -> None:
    for folder in ("scratch", "./scratch", "scratch/"):
        assert judge("ls > scratch/o", allow=["ls"], writable=[folder]).decision is PRE, folder


def test_whole_working_directory_may_be_writable(judge: Judge) -> None:
    assert judge("ls > o", allow=["ls"], writable=["."]).decision is PRE
    assert judge("ls > ../o", allow=["ls"], writable=["."]).decision is ASK


def test_preapproved_default_covers_plain_commands_with_the_same_limits() -> None:
    lines = [
        "sudo ls",
        "ls $x",
        "ls > o",
        "A=1 ls",
        "bash x",
        "python -c 1",
        "export A=1",
        "ls *",
        "",
    ]
    assert others_than(ASK, lines, default=PRE) == []
    assert others_than(PRE, ["ls", "make test | head", "./x a"], default=PRE) == []


def test_rule_that_asks_is_not_made_stricter(judge: Judge) -> None:
    assert judge("sudo ls", ask=["sudo"], default=Decision.BLOCKED).decision is ASK


def test_script_of_several_lines_is_one_line(judge: Judge) -> None:
    assert judge("sed '1{w x\n}' f", allow=["sed"]).decision is ASK
