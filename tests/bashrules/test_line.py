"""The strict reader: the words that bash would make of a plain line, and a refusal of every other line.

Covers forge_cli.bashrules.allow.braces, forge_cli.bashrules.allow.lexer,
forge_cli.bashrules.allow.parser.
"""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules.allow.braces import expand_braces
from forge_cli.bashrules.allow.lexer import UnreadableLine
from forge_cli.bashrules.allow.parser import MAX_COMMANDS, MAX_TOKENS, read_line
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import judge_line
from forge_cli.bashrules.rules import Rule

READ = [
    ("git status", [["git", "status"]]),
    ("  git\tstatus  ", [["git", "status"]]),
    ("a; b && c || d | e |& f & g", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
    ("a\n\nb\n", [["a"], ["b"]]),
    ("a &&\n\nb |\nc", [["a"], ["b"], ["c"]]),
    ("a &", [["a"]]),
    ("(a; b) | { c; }", [["a"], ["b"], ["c"]]),
    ("( (a) )", [["a"]]),
    ("! a && ! b", [["a"], ["b"]]),
    ("{ a & }", [["a"]]),
    ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
    ("'a'\"b\"c '' \"\"", [["abc", "", ""]]),
    (r'a "\$x \` \" \\ \n"', [["a", '$x ` " \\ \\n']]),
    ('a "100$" b$ "$ |$|"', [["a", "100$", "b$", "$ |$|"]]),
    ("a\\\nb c \\\n d", [["ab", "c", "d"]]),
    ("a &&\\\nb ;\\\n c |\\\n\\\nd", [["a"], ["b"], ["c"], ["d"]]),
    ("a >\\\nb 2\\\n>&1", [["a"]]),
    ("a {b}\\\nc", [["a", "{b}c"]]),
    ("a 'x\ny'", [["a", "x\ny"]]),
    ("a # b ; c\nd#e '#f'", [["a"], ["d#e", "#f"]]),
    (
        "git log HEAD~1 a@{u} v1^{} {} x{y}z",
        [["git", "log", "HEAD~1", "a@{u}", "v1^{}", "{}", "x{y}z"]],
    ),
    ("a b*c d[e]f g?", [["a", "b*c", "d[e]f", "g?"]]),
    ("[ -f x ] && echo ! } {", [["[", "-f", "x", "]"], ["echo", "!", "}", "{"]]),
    ("'if' x; \\while y", [["if", "x"], ["while", "y"]]),
    ("time -p git status", [["time", "-p", "git", "status"]]),
    ("> o 2>&1 a < b", [["a"]]),
    ("a x=1 y+=2", [["a", "x=1", "y+=2"]]),
    ("cat <<E x\nhi\nE\nb", [["cat", "x"], ["b"]]),
    ("cat <<'E'\n$(x) `y` \\\nE\nb", [["cat"], ["b"]]),
    ("cat <<-E <<F\n\ta\n\tE\nb\nF\nc", [["cat"], ["c"]]),
    ("(cat <<E)\na \\$b\nE\nc", [["cat"], ["c"]]),
    ("cat <<< 'a b'", [["cat"]]),
    ("café 'ü 🎉'", [["café", "ü 🎉"]]),
    ("a $x", [["a", "$x"]]),
    ('a "$x" ${y}', [["a", '"$x"', "${y}"]]),
    ("a $(b c) d", [["b", "c"], ["a", "$(b c)", "d"]]),
    ('a "x $(b $(c)) y"', [["c"], ["b", "$(c)"], ["a", '"x $(b $(c)) y"']]),
    ("a {b,c}d{e,f}", [["a", "bde", "bdf", "cde", "cdf"]]),
    ("a {b,c/{d,e}}.x y", [["a", "b.x", "c/d.x", "c/e.x", "y"]]),
    ("a {b,}c; d", [["a", "bc", "c"], ["d"]]),
    ("for i in {a,b}; do c $i; done", [["c", "a"], ["c", "b"]]),
    ("a <(b) <(c d)", [["b"], ["c", "d"], ["a", "<(b)", "<(c d)"]]),
    ('a "b$|c$\\|$,$" x$', [["a", "b$|c$\\|$,$", "x$"]]),
    ('a "${PIPESTATUS[0]}" $PIPESTATUS', [["a", '"${PIPESTATUS[0]}"', "$PIPESTATUS"]]),
    ("a * ?b [b] ''*", [["a", "*", "?b", "[b]", "*"]]),
    ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("if a\nthen\nb\nfi | c", [["a"], ["b"], ["c"]]),
    ("while a; do b; done", [["a"], ["b"]]),
    ("until a; do b; done > x", [["a"], ["b"]]),
    ("for i in a b; do c $i; done", [["c", "a"], ["c", "b"]]),
    ("for i in a\ndo\n  c ${i}x\ndone", [["c", "ax"]]),
    (
        "for i in a b; do for j in c d; do e $i$j; done; done",
        [["e", each] for each in ("ac", "ad", "bc", "bd")],
    ),
    ("for i in 'a b'; do c $i; c \"$i\"; done; d $i", [["c", "$i"], ["c", "a b"], ["d", "$i"]]),
    ("x=1", []),
    ("x=a; b $x", [["b", "a"]]),
    ("x=a; y=$x.txt; b $y", [["b", "a.txt"]]),
    ("x=a; x=b; c $x", [["c", "$x"]]),
    ("x=a; read x; c $x", [["read", "x"], ["c", "$x"]]),
    ("x=a; printf -v x b; c $x", [["printf", "-v", "x", "b"], ["c", "$x"]]),
    ("a && x=b; c $x", [["a"], ["c", "$x"]]),
    ("{ x=b; }; c $x", [["c", "$x"]]),
    ("x=b & c $x", [["c", "$x"]]),
    ("c $x; x=b", [["c", "$x"]]),
    ("for x in a; do b; done; c $x", [["b"], ["c", "$x"]]),
    ("x=1 a", [["a"]]),
    ("X=1 Y= a b=c", [["a", "b=c"]]),
    ("X=1 if a", [["if", "a"]]),
    ("X=$(a) b", [["a"], ["b"]]),
    ("X=a; b $X", [[], ["b", "a"]]),
    ("X=a b $X", [["b", "$X"]]),
    ("x=a; x=b c $x; d $x", [["c", "a"], ["d", "a"]]),
    ("PATH=a", [[]]),
    ("IFS=a; b", [[], ["b"]]),
    ("http_proxy=a; b", [[], ["b"]]),
    ("x=1 > a", [[]]),
    ("(X=1)", [[]]),
    ("a | X=1 b", [["a"], ["b"]]),
    ("", []),
    ("# only\n", []),
]

# fmt: off
REFUSED = [
    "a `b`", "a $((1))", "a $[1]", "a $'b'", 'a $"b"', "a $1",
    "$x a", "a >(b)", "a > >(b)", "a < <(b)", "a b<(c)", "a <(b)c", "a <(b {c,d})", "a <()", "<(a) b", "a {1..3}",
    "{a,b}", "{a,b} c", "{x=1,b}", "x={a,b}", "a {b,c", "a {b},c}", "a b}{c,d}", "a {b,{c}}", "a {b,}{,c}", "a {,}",
    "a > {b,c}", "a {b,c}>d", "a {b,c}'d'", "a \"$x\"{b,c}", "a ~/{b,c}", "a {b,c..d}{1..2}",
    "a " + "{b,c}" * 9, "a ${PIPESTATUS[x]}", "a ${PIPESTATUS[0]:-b}", 'a "$\\\nx"',
    "a ${PIPESTATUS[$(b)]}", "a {b}c,d}", "{a", "a }b", "a {b",
    "a ~", "a ~b", "a x=~", "a x:~/y",
    "case a in b) c;; esac", "f() { a; }", "[[ a ]]", "((1))", "( (a); ((b)) )",
    "select x in a; do b; done", "coproc a", "function f { a; }", "x+=1 a",
    "x[1]=2 a", "x[a b", "> o x=1 a", "time x=1 a", "time ! a", "time if a", "time { a; }", "a 'b", 'a "b', "a \\",
    "a &&", "&& a", "| a", "a ||", "a ;; b", "a ; ; b", "; a", "a & ; b", "a & & b", "a | | b", "(a", "a)", "{ a }",
    "( )", "{ }", "(a) b", "{ a; } b", "! ! a", "a | ! b", "!\na", "!(a)", "{(a)}", "(\\\n(a))", "a >", "a > ; b",
    "a > # b", "a <", "a >&-b", "a >&'$(b)'", "a <&'-'", "a {fd}>b", "a >& $x", "cat <<E", "cat <<E\na",
    "cat <<E\n$x\nE", "cat <<E\n`x`\nE", "cat <<E\na\\\nE\nE", "cat <<E$x\nE$x", "cat <<E 'a\nb'\nE",
    "cat <<E \\\nb\nE", "cat <<'E'x\nEx", "cat <<$x\nb\n$x", "a\rb", "a \x1b[0m", "a \u202e", "a \u200b", "a\xa0b",
    "a\u2003b", "a \u2028", "a \ufeff", "a \udc80", "a '\x07'", "a ️",
    "a &\\\n>b c", "a &\\\n\\\n> b", "a &\\\n& b", "a |\\\n| b", "a |\\\n& b", "a >\\\n>b", "a >\\\n|b", "a >\\\n&2",
    "a <\\\n<E\nE", "a <<\\\n-E\nE", "a <\\\n(b)", "a &>\\\n>b", "a;\\\n;b", "a {b}\\\n>c", "a {b}\\\n\\\n<c",
    "a {\\\nb}>c",
    "a $x\\\ny", "a $(b\\\n)", "a $(b", "a $(b # c\n)", "a $(cat <<E\nE\n)", "a $()", "a $(x=1)",
    "a $(for i in a; do b; done)",
    "a $x${", "a ${x:-b}", "a ${x", "a > $x", "a < $(b)", "a > *", "$(a)", '"$x" a', "for X in a; do b; done",
    "for i; do b; done", "for i in a; b; done", "for i in a; do b;", "for i in a; do; done", "if a; then b",
    "if a; b; fi",
    "if a; then b; done", "while a; do b; fi", "then a", "a; fi", "do a; done", "for i in a; do cd b; done",
    "while a; do pushd b; done", '"x"=1; a', "x=1 $y",
    "x=1 | a", "X=1 | a", "a | x=1", "a | X=1", "a=(b) c", "X=1 (a)", "case a in a) b;; esac",
    "a $\\\n(b)", 'a "$\\\n{b}"', "(\\\n(a))", "a <<E\\\nF\nEF",
]
# fmt: on


def test_plain_lines_are_parsed() -> None:
    read = [
        (line, [[word.text for word in command.words] for command in read_line(line)])
        for line, _ in READ
    ]
    assert read == READ


@pytest.mark.needs("bash")
@given(st.lists(st.text("ab{},./*-", min_size=1, max_size=14), min_size=1, max_size=60))
def test_brace_lists_expand_like_in_bash(words: list[str]) -> None:
    known = [(word, found) for word in words if (found := expand_braces(word)) is not None]
    for_bash = "".join(f"set -- {word}; printf '%s\\0' \"$@\"; echo;" for word, _ in known)
    printed = subprocess.run(
        ["bash", "--norc", "-fc", for_bash], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    assert printed == "".join("".join(f"{each}\0" for each in found) + "\n" for _, found in known)


def test_other_lines_are_refused() -> None:
    assert [line for line in REFUSED if not is_refused(line)] == []


def is_refused(line: str) -> bool:
    try:
        read_line(line)
    except UnreadableLine as refused:
        return bool(refused.why) and 0 <= refused.at <= len(line)
    return False


def test_redirections_are_kept_with_their_targets() -> None:
    (command,) = read_line("a >b 2>>'c d' <e >&2 &>f <>g <<E\nE\n")
    redirects = [(redirect.operator, redirect.target.text) for redirect in command.redirects]
    assert redirects == [
        (">", "b"),
        (">>", "c d"),
        ("<", "e"),
        (">&", "2"),
        ("&>", "f"),
        ("<>", "g"),
        ("<<", ""),
    ]


def test_redirections_of_a_group_apply_to_its_last_command() -> None:
    first, last = read_line("{ a; b; } > c")
    assert (first.redirects, [redirect.target.text for redirect in last.redirects]) == ([], ["c"])


def test_input_of_a_command_is_known() -> None:
    first, second = read_line("a 0<b 3<c 2>&1 | d")
    assert [redirect.descriptor for redirect in first.redirects] == ["0", "3", "2"]
    assert [(first.at, first.piped), (second.at, second.piped)] == [(0, False), (17, True)]


def test_globs_are_marked() -> None:
    (command,) = read_line("a b*c 'b*c' [")
    assert [word.glob for word in command.words] == [False, True, False, False]


def test_deep_nesting_is_parsed_without_recursion() -> None:
    assert [
        [word.text for word in command.words]
        for command in read_line("( " * 5000 + "a" + " )" * 5000)
    ] == [["a"]]


@pytest.mark.long
def test_too_many_commands_ask_and_blocked_ones_are_found() -> None:
    rules = [
        Rule(pattern="ls", decision=Decision.PRE_APPROVED),
        Rule(pattern="rm", decision=Decision.BLOCKED),
    ]
    assert judge_line("ls; " * MAX_COMMANDS, rules, Decision.ASK).decision is Decision.PRE_APPROVED
    many = judge_line("ls; " * (MAX_COMMANDS + 1), rules, Decision.ASK)
    assert (many.decision, "more than 5000 commands" in many.reason) == (Decision.ASK, True)
    assert (
        judge_line("ls; " * MAX_COMMANDS + "ls; rm x", rules, Decision.ASK).decision
        is Decision.BLOCKED
    )


def test_too_many_words_ask() -> None:
    rules = [Rule(pattern="ls", decision=Decision.PRE_APPROVED)]
    assert (
        judge_line("ls" + " x" * (MAX_TOKENS - 1), rules, Decision.ASK).decision
        is Decision.PRE_APPROVED
    )
    many = judge_line("ls" + " x" * (MAX_TOKENS + 1), rules, Decision.ASK)
    assert (many.decision, "more than 16000 words" in many.reason) == (Decision.ASK, True)
