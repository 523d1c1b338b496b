"""The block side: a blocked command is found wherever it hides, and text that is no command is left alone.

Covers forge_cli.bashrules.block.expansions, forge_cli.bashrules.block.frames,
forge_cli.bashrules.block.patterns, forge_cli.bashrules.block.quoting,
forge_cli.bashrules.block.scanner, forge_cli.bashrules.block.search, forge_cli.bashrules.block.unwrap.
"""

from functools import partial

import pytest

from forge_cli.bashrules.block.frames import ScanBudget
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.programs.table import DATA, read_rows

from .conftest import Judge, judge_by, others_than
from .test_programs import blocked_examples

PRE, ASK, BLOCKED = Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED

# fmt: off
FOUND = [
    "rm", "rm x", "\trm x", "rm;", "rm&", "rm|cat", "rm>x", ">x rm y", "2>&1 rm y", "ls;rm x", "ls&&rm x", "ls|rm x",
    ";rm", "RM x", "/bin/rm x", "./rm x", "~/bin/rm x", "/bin/r? x", "r[m] x", "'rm' x", '"rm" x', "r''m x", "\\rm x",
    "r\\m x", "$'rm' x", "$'\\x72\\155' x", "$'\\u0072m' x", "$'\\x{72}m' x", "$'rm\\0zz' x", '$"rm" x', "r\\\nm x",
    "ls \\\n; rm x", "A=1 rm x", "A=1 B=2 rm x", "! rm x", "time rm x", "time -p rm x", "coproc rm x",
    "coproc N { rm x; }", "(rm x)", "{ rm x; }", "if rm x; then :; fi", "if :; then rm x; fi",
    "if [[ a ]] then rm x; fi", "while :; do rm x; done", "for i in a; do rm $i; done", "for i do rm x; done",
    "for ((;;)); do rm x; done", "case a in a) rm x;; esac", "case a in (a) rm x;; esac", "f() { rm x; }",
    "function f { rm x; }", "function f() (rm x)", "[[ a ]] && rm x", "select i in a; do rm x; done",
    "until rm x; do :; done", "((1)); rm x", "echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", 'echo "`rm x`"',
    "echo `echo \\`rm x\\``", "cat <(rm x)", "ls > >(rm x)", "echo ${x:-$(rm y)}", "echo $((`rm x`))",
    "echo $[$(rm x)]", "x=$(rm y)", "a=($(rm x))", "a[$(rm x)]=1", "[[ $(rm x) ]]", '"$(case a in a) rm x;; esac)"',
    'echo "${x:-$(rm x)}"', "cat <<< $(rm x)", "$(rm x)", "echo $(\n# it's\nrm x)", "cat <<E\n$(rm x)\nE",
    "cat <<-E\n\tx\n\tE\nrm x", "cat <<'E'\nx\nE\nrm x", "cat <<E && rm x\nE", "cat <<A <<B\nA\nB\nrm x",
    "bash <<'E'\nrm x\nE", "bash <<E\nrm x\nE", "cat <<'E' | sh\nrm x\nE", "bash <<< 'rm x'", "echo 'rm x' | sh",
    "echo rm x | sh -s", "bash <(echo rm x)", ". <(echo rm x)", 'eval "$(echo rm x)"', "su <<E\nrm x\nE",
    "ssh host <<E\nrm x\nE", "watch 'ls; rm x'", "ssh -p 22 host 'ls; rm x'", "trap 'rm x' EXIT",
    "trap -- 'rm x' EXIT", "find . -exec rm {} +", "find . -ok rm {} ';'", "find . -name a -execdir sh -c 'rm x' ';'",
    "fd a -x rm", "fd a --exec rm", "rg --pre rm a", "rg --pre=rm a", "sort --compress-program=rm",
    "rm${IFS}-rf${IFS}x", "r${x}m y", "r$@m y", "$x rm y", '"$@" rm y', "{rm,x}", "r{m,} x", "{r..r}m x",
    "${x:-rm} y", "X=rm; $X y", "for c in rm; do $c x; done", 'f() { "$@"; }; f rm x', "printf -v 'a[$(rm x)]' y",
    "echo >&'a$(rm x)'", "echo >&'a$>(rm x)'b", "echo <&'>(ls) <(rm x)'", "a[1<<E]=1\nrm x\nE]=1", "$\\\n{x:-rm} y",
    "shopt -s extglob\necho @(#) ; rm x", "rm x\necho 'open", "ls; rm x; (", "(rm x", "{ rm x", "echo 'open; rm x",
    "rm\\\n x", "cat <<E\nrm x", "{,rm} x", "sudo {,rm} x", "{{,rm},} x", "$x{,a} rm y", "A[0]=1 rm x",
    "$'\\x{FFFFFF72}m' x", "xargs sh -c <<E\nrm x\nE", "xargs -I{} sh -c {} <<E\nrm x\nE", "case x in rm x",
    "x[ <<'E'\n`rm`\nE\n]=1", "((cat <<E\nit's\nE\n); rm x; echo it's)",
]
# fmt: on

# fmt: off
NOT_FOUND = [
    "$(printf rm) x", "grep -v rm x | $y", "{echo,rm} x", "r{1,2,3}m x",
    "printf %s '$(rm x)'", "[ a = '$(rm x)' ]",
    "echo rm", "echo 'rm x'", 'git commit -m "rm -rf x; rm"', "git rm x", "grep rm f", "ls rm", "ls # rm x",
    "ls # ; rm x", "cat <<'E'\nrm x\nE", "cat <<E\nrm x\nE", "cat <<E\n\tE\nrm x\nE", "cat <<\\E\n$(rm x)\nE",
    "echo '$(rm x)'", 'echo "\\$(rm x)"', "echo \\; rm x", "timeout 5 echo rm", "sudo grep rm f", "find . -name rm",
    "xargs echo rm", "docker rm x", "command -v rm", "for rm in a; do ls; done", "rmdir x", "./rm.sh", "firm x",
    "r\u200bm x", "rm\rx", "$(echo rm) x", "`echo rm` x", 'git commit -m "$(cat <<\'E\'\nrm x, don\'t\nE\n)"',
    "echo cm0= | base64 -d | sh", "echo ${rm}", "case $x in a|b) ls;; *) cat;; esac", "X=1; ls $X rm",
    "cat <<'E' > f\nrm $x\nE\nls", "if [[ $x =~ ^(a|b)$ ]]; then echo rm; fi", "bash x.sh <<E\nrm\nE",
]
# fmt: on

# fmt: off
EXPANDING = [
    "r$(true)m x", "r`true`m x", "git pu{sh,ll}", "{a..z}m x", "echo \"$'\\0\" ; rm x ; echo \"'\"",
    "r{m," + "a" * 300 + "} x", "{" + "," * 300 + "rm} x",
]
# fmt: on

# fmt: off
GIT_FOUND = [
    "git-push", "git 'push'", "bash -c 'git -C x push'", "x=1 git push", "GIT PUSH", "git -C x push",
]
# fmt: on


# fmt: off
MAKE_FOUND = [
    "make &\\\n>/dev/null deploy", "make >\\\n>o deploy", "make >\\\n|o deploy", "make 2\\\n>\\\n&1 deploy",
    "make <\\\n<\\\n<x deploy",
    "make {x}\\\n>o deploy", "make >&\\\n- deploy", "make &\\\n>\\\n>o deploy", "make <\\\n>o deploy",
    "make >(a) deploy", "ma\\\nke dep\\\nloy",
    "a &\\\n& make deploy", "a |\\\n& make deploy", "cat >\\\n(make deploy)", "cat <\\\n(make deploy)",
    "# a \\\nmake &\\\n>o deploy",
]
# fmt: on


# fmt: off
COULD_BECOME = [
    "make deplo?", "make d*", "make *", "make ?eploy", "make [d]eploy", "make deplo[!x]", "make deplo[^x]", "make *y",
    "make [[:alpha:]]eploy", "make DEPLO?", "make 'dep'lo?", "make {deploy,x}", "make {x,d}eploy", "make $'deploy'",
    "make d{e,x}plo?", "/usr/bin/make deplo?", "env make depl*", "sudo make d*", "find . -exec make deplo? ';'",
    "bash -c 'make deplo?'", "ls; make deplo?", "timeout 5 make *", "mak? deplo?", "[l-n]ake deploy", "m* d*",
    "make * *",
    "git pus? x", "git -C x pus?", "git push origi? main", "git * main", "git p* *", "gi? push origin mai?", "git-pus?",
    "rm -r? x", "rm -[r]f", "cat ~root/.ssh/id_rsa", "cat ~/.ssh/id_rsa", "cat ~+/.ssh/id_rsa", "cat /*/.ssh/id_rsa",
    "ls ~", "ls ~root", "xargs make deplo?", "g?? push origin main", "*",
]
COULD_NOT_BECOME = [
    "make tes?", "make -s deplo?", "make deplo\\?", "make 'deplo?'", 'make "*"', "make deplo[x]", "make deploy?",
    "make ~", "make test/*", "git pull p*", "git log *", "rm -i*", "rm x*", "cat '~/.ssh/id_rsa'", "cat a~", "ls ~/x",
    "ls x=y*", "cat src/*", "ls *", "echo * make", "make {a,b}", "make x~",
]
COULD_BE_BLOCKED = [
    "make deploy", "git push", "git push origin main", "rm -rf", "cat /root/.ssh/id_rsa", "ls /root",
]
VALUES = [
    *(f"{wrapper} ${{x:-rm}} y" for wrapper in (
        "timeout 5", "nice", "setsid", "ionice -c3", "taskset 1", "watch", "chrt 1", "timeout 5 nice", "stdbuf -oL",
        "flock f",
        "strace", "ssh host", "find . -exec", "sudo", "env", "command", "xargs", "nohup", "doas", "exec", "coproc",
        "!", "time",
    )),
    'timeout 5 "${x:-rm}" y', "timeout 5 ${x:=rm} y", "${x-rm} y", "${x+rm} y", "nice ${x:-'rm'} y",
    "nice ${x:-r\\m} y",
    "nice ${x:-${y:-rm}} z", "nice ${x:-$'rm'} y", "t=rm; timeout 5 $t y", "t=rm && setsid $t y", "t=rm; nice \"$t\" y",
    "t=rm timeout 5 $t", "t='rm y'; timeout 5 $t", "export t=rm; nice $t", "declare t=rm; nice $t",
    "readonly t=rm; nice $t",
    "t=r; nice ${t}m", "t=r; t+=m; nice $t", "a=r; b=${a}m; nice $b x", "t=(rm); nice ${t[0]}",
    't=(a rm); nice "${t[1]}"',
    "read t <<< rm; nice $t", "echo rm | while read t; do nice $t; done", "echo rm | { read t; nice $t; }",
    "nice $t x; t=rm",
    "mapfile t <<< rm; nice ${t[0]}", "for t in ls rm; do nice $t; done", "set -- rm; nice $1 x",
    'f() { nice "$@"; }; f rm x',
    "printf -v t rm; nice $t x", ": ${t:=rm}; nice $t x", "t=xrm; nice ${t#x}", "t=rmx; nice ${t%x}",
    "t=xrm; nice ${t:1}",
    "t=xm; nice ${t/x/r}", "t=RM; nice ${t,,}", "t=u; u=rm; nice ${!t}", "t=rm; bash -c 'nice $t x'",
    "t='nice rm x'; bash -c \"$t\"",
    "t='nice rm x'; eval $t", "t='nice rm x'; eval \"$t\"", "t='nice rm x'; bash <<< \"$t\"", "t=`true`rm; nice $t x",
    "t=rm; `nice $t`",
    "IFS=,; t=nice,rm,x; $t", "t=rm; nice ${t} x", "t=rm; nice ${t:-a} x", "t=a:rm; nice ${t#a:} x",
    "env t=rm sh -c 'nice $t'",
    "a=tag; git $a", "g=git; $g tag", "g=git a=tag; $g $a", "export a=tag; git $a v1", "read a <<< tag; git $a",
    "a=ta; git ${a}g",
    "c='git tag'; $c v1", "git ${a:-tag}", "git -C x ${a:=tag}", "a=tag; timeout 5 git $a", "a=tag; git -C x \"$a\"",
    "a=ta?; git $a",
    "a=(git tag); \"${a[@]}\"", "a='-C x tag'; git $a", "for a in log tag; do git $a; done", "f() { git $1; }; f tag",
    "f() { git \"$@\"; }; f tag v1", "declare -A m=([k]=tag); git ${m[k]}", "set -- tag; git $1",
    "a=tag; git `true`$a", "echo tag | xargs git",
    "xargs git <<< tag",
    "echo v1 | xargs git tag", "echo tag | xargs -I% git % v1", "xargs -I {} git {} <<E\ntag\nE",
    "echo rm | xargs -I{} {} x",
    "echo rm x | xargs nice", "parallel git ::: log tag", "parallel -I% git % ::: tag", "echo tag | xargs -n1 git -C x",
    "x=deploy; make test $x", "a=deploy; make $a",
    "make ${a:-deploy}", "a=DEPLOY; make $a", "d=dep; make ${d}loy", "a=deplo; make $a?",
    "a=d; make $a*",
]
UNSEEN = [
    "git $a", "$g tag", "nice $t x", "${x} y", "git ${a}", "git $(echo tag)", "timeout 5 $(echo rm) x",
    "a=$(echo tag); git $a",
    "a=log; git $a", "a=tag; git log $a", "t=rm; echo $t", "t=rm; git log \"$t\"",
    "msg='rm old'; git commit -m \"$msg\"",
    "a=tag; git $b", "for f in rm tag; do cat $f; done", "f=a.txt; cat ${f%.txt}.md",
    "n=3; nice -n $n ls", "read a; git $a", "echo ls | xargs echo rm", "ls | xargs git log", "make CC=gcc",
    "make -f x.mk",
]
MAKEFILES = [
    "make -f- <<'E'\na:\n\trm x\nE", "make --file=- <<< 'a:; rm x'", "echo 'a:; rm x' | make -f -",
    "make -sf - <<< 'a:;rm x'",
    "make -f /dev/stdin <<< 'a:; @rm x'", "printf 'a:\\n\\t-@rm x\\n' | make -f-",
    "make -f- <<'E'\nR = rm\na:\n\t$(R) x\nE",
    "make -f- <<'E'\nX := $(shell rm x)\nE", "make --eval='$(shell rm x)'", "make --eval 'a:;rm x'",
    "make -E 'a:;rm x'",
    "make SHELL='rm x'", "make CC=rm", "make -f <(echo 'a:; rm x')", "gmake --makefile=- <<< 'a:; rm x'",
]
# fmt: on


def test_word_that_could_become_a_blocked_one_is_blocked() -> None:
    assert others_than(BLOCKED, COULD_BECOME, default=PRE, block=COULD_BE_BLOCKED) == []
    verdicts = {
        line: judge_by(line, default=PRE, block=COULD_BE_BLOCKED).decision
        for line in COULD_NOT_BECOME
    }
    assert [line for line, decision in verdicts.items() if decision is BLOCKED] == []


def test_known_value_counts_as_the_word_and_an_unknown_one_asks() -> None:
    assert others_than(BLOCKED, VALUES, block=["rm", "git tag", "make deploy"]) == []
    assert others_than(ASK, UNSEEN, block=["rm", "git tag", "make deploy"]) == []


def test_input_of_make_is_searched() -> None:
    assert others_than(BLOCKED, MAKEFILES, block=["rm"]) == []


def test_line_that_may_start_a_blocked_command_asks(judge: Judge) -> None:
    allow, block = ["make", "ls", "echo", "unknown", "timeout 5 make"], ["make deploy", "rm"]
    expected = {
        "make test": PRE,
        "make tes?": ASK,
        "make -s deplo?": ASK,
        "timeout 5 make tes?": ASK,
        "make test && ls src/*.py": PRE,
        "unknown make deploy": ASK,
        "unknown -x rm y": ASK,
        "unknown make test": PRE,
        "echo make deploy": PRE,
        "ls rm": PRE,
    }
    assert {line: judge(line, allow=allow, block=block).decision for line in expected} == expected


def test_many_values_do_not_hide_a_blocked_command(judge: Judge) -> None:
    many = "; ".join(f"a=v{number}" for number in range(100))
    assert judge(f"{many}; a=tag; git $a", block=["git tag"]).decision is BLOCKED
    several = "; ".join(f"{name}=x; {name}=tag; {name}=y" for name in "abcdef")
    assert judge(f"{several}; git $a $b $c $d $e $f", block=["git tag"]).decision is BLOCKED
    assert judge("true; " * 20_000 + "a=tag; git $a", block=["git tag"]).decision is BLOCKED
    assert judge(f"{many}; a=ta; git ${{a}}g", block=["git tag"]).decision is BLOCKED
    names = " ".join(f"f{number}" for number in range(100))
    loop = f"for f in {names}; do cp $f $f.bak; done; git commit -m 'tag it'; echo {names} | xargs git log"
    assert judge(loop, block=["git tag", "rm"]).decision is ASK
    assert judge(f"echo {names} tag | xargs git", block=["git tag"]).decision is BLOCKED


def test_blocked_command_is_found() -> None:
    assert others_than(BLOCKED, FOUND, block=["rm"]) == []
    assert others_than(BLOCKED, MAKE_FOUND, block=["make deploy"]) == []
    assert others_than(BLOCKED, GIT_FOUND, block=["git push"]) == []
    assert [line for line in NOT_FOUND if judge_by(line, block=["rm"]).decision is BLOCKED] == []


def test_many_global_options_do_not_hide_a_blocked_command(judge: Judge) -> None:
    assert judge(f"git {'-C . ' * 2000}push", block=["git push"]).decision is BLOCKED


def test_blocked_wrapper_is_blocked(judge: Judge) -> None:
    assert judge("ls | sudo -n true", block=["sudo"]).decision is BLOCKED


def test_blocked_path_is_found_by_its_name(judge: Judge) -> None:
    assert judge("bash deploy.sh", block=["./deploy.sh"]).decision is BLOCKED


def test_blocked_path_is_found_in_every_spelling() -> None:
    lines = [
        "cat /etc//passwd",
        "cat /etc/./passwd",
        "cat //etc/passwd",
        "cat /etc/x/../passwd",
        "cat -n /ETC/passwd",
    ]
    assert others_than(BLOCKED, lines, allow=["cat"], block=["cat /etc/passwd"]) == []
    assert others_than(BLOCKED, ["rm ./src", "rm src/"], block=["rm src"]) == []


def test_brace_sequence_is_each_of_its_members() -> None:
    lines = [
        "make deplo{x..z}",
        "make {deploz..deploy,deploy}",
        "chmod {776..778} x",
        "chmod {1..9999} x",
    ]
    assert others_than(BLOCKED, lines, block=["make deploy", "chmod 777"]) == []
    assert others_than(ASK, ["make deplo{a..c}", "make {1..9}"], block=["make deploy"]) == []


def test_unknown_word_may_be_the_value_of_an_option() -> None:
    lines = ["git -C $(pwd) push", "git -C `pwd` push", "git -C $x push", "git --git-dir $(x) push"]
    assert others_than(BLOCKED, lines, block=["git push"]) == []


def test_verdict_names_the_command_and_the_rule(judge: Judge) -> None:
    verdict = judge("ls && sudo rm -rf 'a b'", block=["mv", "rm"])
    assert verdict.reason == "'rm -rf 'a b'' matches the blocked rule 'rm'"
    assert verdict.match == verdict.parts[-1].match
    assert [
        (part.text, part.match and part.match.index, part.nested, part.decision)
        for part in verdict.parts
    ] == [
        ("ls", None, False, ASK),
        ("sudo rm -rf 'a b'", None, False, ASK),
        ("rm -rf 'a b'", 1, True, BLOCKED),
    ]


def test_other_parts_of_a_blocked_line_are_shown_with_their_rules(judge: Judge) -> None:
    verdict = judge("ls $x | rm y; id", allow=["ls"], block=["rm"])
    assert [(part.text, part.decision, part.why is not None) for part in verdict.parts] == [
        ("ls $x", ASK, True),
        ("rm y", BLOCKED, False),
        ("id", ASK, False),
    ]


@pytest.mark.long
@pytest.mark.parametrize("depth", [100, 20_000])
def test_nesting_does_not_hide_a_blocked_command(depth: int) -> None:
    around = [("$(", ")"), ("(", ")"), ('"$(', ')"'), ("${x:-$(", ")}"), ("<(", ")")]
    lines = [f"echo {before * depth}rm x{after * depth}" for before, after in around]
    assert [line[:20] for line in others_than(BLOCKED, lines, block=["rm"])] == []


@pytest.mark.long
def test_length_does_not_hide_a_blocked_command() -> None:
    pieces = ["true; ", "sudo ", "env -S '' ", "eval ", "A=1 ", "! ", "nice -n 1 "]
    lines = [piece * count + "rm x" for piece in pieces for count in (50, 5000)]
    assert [line[:20] for line in others_than(BLOCKED, lines, block=["rm"])] == []


def test_unparsed_part_of_a_line_is_searched(judge: Judge) -> None:
    assert judge("true; " * 20_000 + "'r'm x", block=["rm"]).decision is BLOCKED


@pytest.fixture
def impatient(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Judge a line behind more commands than are taken apart."""
    monkeypatch.setattr(
        "forge_cli.bashrules.block.search.ScanBudget", partial(ScanBudget, steps=40)
    )
    return lambda line, **rules: judge("true; " * 50 + line, **rules)


@pytest.mark.long
def test_blocked_command_is_found_after_the_parsed_commands(impatient: Judge) -> None:
    assert others_than(BLOCKED, [*FOUND, *in_rows()], impatient, block=["rm"]) == []
    assert others_than(BLOCKED, GIT_FOUND, impatient, block=["git push"]) == []
    assert others_than(BLOCKED, EXPANDING, impatient, block=["rm", "git push"]) == []
    lines = ["ls *.c ?", "grep $x {a,b}", "git pull {a,b}", "ls ${x}", "echo r.m"]
    assert others_than(ASK, lines, impatient, block=["rm", "git push"]) == []


def in_rows() -> list[str]:
    """The lines in the tables that a rule blocking ``rm`` blocks."""
    texts = [row.blocked for path in DATA.glob("*.yaml") for row in read_rows(path)]
    return [line for text in texts for blocking, line in blocked_examples(text) if blocking == "rm"]


def test_error_in_the_scan_falls_back_to_the_plain_text(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("forge_cli.bashrules.block.search.scan", broken)
    assert judge("ls; 'r'm x", allow=["ls"], block=["rm"]).decision is BLOCKED
    assert judge("ls $x", allow=["ls"], block=["rm"]).decision is ASK


def test_nested_scripts_do_not_hide_a_blocked_command(judge: Judge) -> None:
    script = "rm x"
    for _ in range(12):
        script = "eval " + "".join(f"\\{char}" if not char.isalnum() else char for char in script)
        assert judge(script, block=["rm"]).decision is BLOCKED
        if len(script) > 50_000:
            break


def test_nul_byte_is_blocked(judge: Judge) -> None:
    assert judge("git status\0", allow=["git"]).decision is BLOCKED


BRACES = "{s,u}{u,d}{d,o}{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r}{s,t}"
"""More words than anybody looks through, some of which could be blocked."""
OPERANDS = [
    f"mkdir -p {BRACES}",
    f"touch x/{BRACES} {BRACES}",
    f"cp a {BRACES} && cd $x",
    f"mkdir -p src/{BRACES}; touch src/{{a,b}}/{{c,d}}",
    f"ls {BRACES} | wc -l",
    "mkdir -p s/{s/{s,o,document},models,jobs} c/{app,f/{auth/{components,hooks,context,api},v/{c,h,a},d/x,f/{c,h,a},"
    "admin/{c,h,a},p/{c,h,a}},shared/{components/{ui,l},hooks,api,constants,types,utils}}",
]
COMMANDS = [
    BRACES,
    f"env {BRACES}",
    f"xargs {BRACES}",
    f"echo {BRACES} | sh",
    f"mkdir {BRACES}; {{s,x}}udo ls",
    f"mkdir {BRACES} $(sudo ls)",
    f'mkdir() {{ "$@"; }}; mkdir {BRACES}',
    f'function mkdir {{ "$@"; }}; mkdir {BRACES}',
    f"alias mkdir=env; mkdir {BRACES}",
    f"eval 'touch() {{ \"$@\"; }}'; touch {BRACES}",
    'mkdir() { "$@"; }; mkdir {sudo,ls}',
]


def test_long_list_of_names_is_not_a_blocked_command(judge: Judge) -> None:
    assert others_than(ASK, OPERANDS, judge, block=["sudo", "git push"]) == []
    assert others_than(BLOCKED, COMMANDS, judge, block=["sudo", "git push"]) == []


def test_long_list_is_searched_if_a_rule_names_its_program(judge: Judge) -> None:
    assert (
        others_than(
            BLOCKED,
            ["rm {-rf,x}", "rm {x,-rf} y", f"rm -r{{f,v}} {BRACES}"],
            judge,
            block=["rm -rf"],
        )
        == []
    )
