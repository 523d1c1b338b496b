"""The allow side: what a rule covers, and what asks although a rule matches.

Covers forge_cli.toolsets.shell.allow.folders, forge_cli.toolsets.shell.allow.hazards,
forge_cli.toolsets.shell.allow.programs, forge_cli.toolsets.shell.allow.redirects,
forge_cli.toolsets.shell.programs.names, forge_cli.toolsets.shell.programs.options,
forge_cli.toolsets.shell.programs.readers, forge_cli.toolsets.shell.programs.tables,
forge_cli.toolsets.shell.programs.unknown.
"""

import subprocess

import pytest

from forge_cli.core.approval import Approval
from forge_cli.toolsets.shell.programs.tables import OPTIONS

from .conftest import Judge

PRE, ASK = Approval.PRE_APPROVED, Approval.ASK

# fmt: off
COVERED = [
    ("git", "git"), ("git", "git status"), ("git", "git log -p -3"), ("git", "git log -c"),
    ("git", "git --no-pager log"), ("git", "git -C src status"), ("git", "git commit -m 'a::b --exec'"),
    ("git", "git commit -c HEAD"), ("git", "git fetch"), ("git", "git switch -c x"), ("git", "git push -o ci.skip"),
    ("git", "git clone https://x.invalid/y"), ("git", "git config user.name"), ("git", "git config --get user.name"),
    ("git", "git config --list"), ("git", "git stash pop stash@{0}"), ("git", "git grep -o x"),
    ("git", "git diff --stat --color"), ("git", "git submodule status"), ("git", "git bisect good"),
    ("git", "git help log"), ("git log", "git log --oneline"), ("ls", "ls src/*.py"), ("ls", "ls -la"),
    ("echo", "echo -n 'rm -rf /'"), ("cat", "cat a b"), ("python", "python x.py -c"),
    ("python", "python -m pytest -x"), ("python", "python -W ignore -u x.py"), ("python", "python --version"),
    ("python3", "python3 -Bs x.py"), ("node", "node x.js -e"), ("node", "node --version"), ("perl", "perl -w x.pl"),
    ("find", "find . -name '*.py' -print"), ("rg", "rg --pretty x"), ("rg", "rg -n 'a|b' src"),
    ("sort", "sort -k2 -n f"), ("uniq", "uniq -c f"), ("sed", "sed -n 1,5p f"), ("sed", "sed 's/a/b/g; s|c|d|' f"),
    ("sed", "sed -e '/x/d' -e '$p' f"), ("sed", "sed -nE '/a[bc]d/p' f g"), ("awk", "awk '{print $1}' f"),
    ("awk", "awk -F: -v x=1 '$1 == x || $2 {print}' f"), ("tar", "tar tf a.tar"),
    ("curl", "curl -sS https://x.invalid"), ("make", "make test"), ("printf", "printf '%s\\n' x"),
    ("test", "test -f x"), ("[", "[ -n x ]"), ("cd", "cd src"), ("cd", "cd ./src/a"),
    ("timeout 30 git status", "timeout 30 git status -s"), ("timeout 30 git", "timeout 30 git log"),
    ("sudo git", "sudo git status"), ("env A=1 git", "env A=1 git status"), ("nice -n 5 make", "nice -n 5 make all"),
    ("xargs cat", "xargs cat"), ("xargs -0 wc", "xargs -0 wc -l"), ("bash x.sh", "bash x.sh a b"),
    ("sh -e x.sh", "sh -e x.sh"), ("uv run pytest", "uv run pytest -q"), ("time git", "time git status"),
    ("eval git", "eval git status"), ("./x.sh", "./x.sh a"), ("docker", "docker ps"), ("npm", "npm run build"),
    ("go", "go test ./..."),
]
NOT_COVERED = [
    ("git", "git -c a=b log"), ("git", "git -ca=b log"), ("git", "git --config-env=a=B log"),
    ("git", "git --exec-path=. log"), ("git", "git -p log"), ("git", "git --git-dir=x log"),
    ("git", "git --work-tree / status"), ("git", "git -C .. log"), ("git", "git -C /x log"), ("git", "git -C"),
    ("git", "git st"), ("git", "git credential fill"), ("git", "git daemon"), ("git", "git filter-branch"),
    ("git", "git difftool"), ("git", "git log*"), ("git", "git fetch --upload-pack=x"),
    ("git", "git fetch --upload-pa x"), ("git", "git fetch --u x"), ("git", "git push --receive-pack x"),
    ("git", "git push --exec x"), ("git", "git clone -u x y"), ("git", "git clone -qc a=b y"),
    ("git", "git clone --config a=b y"), ("git", "git init --template=x"), ("git", "git grep -O x"),
    ("git", "git grep -nOx y"), ("git", "git grep --open x"), ("git", "git rebase -x id"),
    ("git", "git rebase -ix id"), ("git", "git bisect run x"), ("git", "git submodule foreach x"),
    ("git", "git submodule --quiet foreach x"), ("git", "git diff --ext-diff"), ("git", "git log --output=x"),
    ("git", "git log --outp x"), ("git", "git archive -o x HEAD"), ("git", "git format-patch -o x"),
    ("git", "git bundle create x"), ("git", "git config core.pager id"), ("git", "git config --unset a.b"),
    ("git", "git config --global --edit"), ("git", "git config set a.b c"), ("git", "git help -w log"),
    ("git", "git fetch ext::x"), ("git", "git remote add x 'ext::sh -c id'"), ("git", "git archive --remote=ext::x"),
    ("git", "git merge -s x y"), ("git", "git merge --strategy=x y"), ("git", "/usr/bin/git log"), ("git", "GIT log"),
    ("git", "gitk"), ("git log", "git -C x log"), ("python", "python -c 1"), ("python", "python -uc 1"),
    ("python", "python -Xdev -c 1"), ("python", "python"), ("python", "python -"), ("python", "python -i x.py"),
    ("python3", "python3 -c 1"), ("python", "python -m timeit x"), ("node", "node -e 1"), ("node", "node -p 1"),
    ("node", "node --eval=1"), ("perl", "perl -e 1"), ("perl", "perl -we 1"), ("perl", "perl -MO=x f"),
    ("ruby", "ruby -e 1"), ("php", "php -r 1"), ("deno", "deno eval 1"), ("lua", "lua -"), ("find", "find . -delete"),
    ("find", "find . -exec id ';'"), ("find", "find . -okdir id ';'"), ("find", "find . -fprintf x y"),
    ("fd", "fd -x id"), ("rg", "rg --pre ./x y"), ("rg", "rg --pre=./x y"), ("rg", "rg --hostname-bin=x y"),
    ("sort", "sort -o x f"), ("sort", "sort -uo x f"), ("sort", "sort --outp=x f"),
    ("sort", "sort --compress-program x f"), ("sort", "sort -T x f"), ("uniq", "uniq a b"), ("uniq", "uniq a*"),
    ("xxd", "xxd a b"), ("sed", "sed -i s/a/b/ f"), ("sed", "sed -n -i.b p f"), ("sed", "sed --in-place s/a/b/ f"),
    ("sed", "sed 's/a/b/e' f"), ("sed", "sed 's/a/b/w x' f"), ("sed", "sed 'w x' f"), ("sed", "sed '1e id' f"),
    ("sed", "sed -f x f"), ("sed", "sed -e p -e 'w x' f"), ("sed", "sed 's/[/]/;p;s/w x/p/' f"),
    ("sed", "sed '1{w x\n}' f"), ("sed", "sed"), ("sed", "sed a*b f"), ("awk", 'awk \'BEGIN{system("id")}\''),
    ("awk", 'awk \'{print > "x"}\' f'), ("awk", 'awk \'{print | "id"}\' f'), ("awk", 'awk \'{"id" | getline}\' f'),
    ("awk", "awk -f x f"), ("awk", "awk -i inplace 1 f"), ("gawk", 'gawk \'@load "x"\''),
    ("tar", "tar --to-command=id -xf a"), ("tar", "tar xfI a ./x"), ("tar", "tar -I ./x -xf a"),
    ("tar", "tar --checkpoint-action=exec=id -cf a b"), ("curl", "curl -o x y"), ("curl", "curl -sSLo x y"),
    ("curl", "curl -K x"), ("rsync", "rsync -e x a b"), ("less", "less +!id f"), ("man", "man -P id x"),
    ("make", "make SHELL=x"), ("make", "make -f x"), ("make", "make --eval=x"), ("go", "go run ."),
    ("go", "go test -exec x"), ("go", "go vet -vettool=x"), ("printf", "printf -v x y"), ("printf", "printf %n x"),
    ("test", "test -v x"), ("[", "[ a -a -v x ]"), ("wait", "wait -p x"), ("cd", "cd"), ("cd", "cd .."),
    ("cd", "cd a/../.."), ("cd", "cd -"), ("cd", "cd /x"), ("cd", "cd a b"), ("cd", "cd a*"), ("cd", "cd -P a"),
    ("export", "export A=1"), ("alias", "alias a=b"), ("set", "set -e"), ("hash", "hash -p x y"),
    ("source", "source x"), (".", ". x"), ("trap", "trap x EXIT"), ("unset", "unset x"), ("read", "read x"),
    ("shopt", "shopt -s extglob"), ("pushd", "pushd src"), ("vim", "vim x"), ("sqlite3", "sqlite3 db .shell"),
    ("sudo", "sudo git status"), ("env", "env git status"), ("env", "env"), ("timeout 30", "timeout 30 git"),
    ("timeout", "timeout 5 git"), ("xargs", "xargs cat"), ("xargs git", "xargs git"), ("xargs sh", "xargs sh x"),
    ("xargs env", "xargs env"), ("nice", "nice git"), ("command", "command git"), ("exec", "exec git"),
    ("eval", "eval git"), ("eval git", "eval git ';id'"), ("watch git", "watch git 'log;id'"), ("bash", "bash x.sh"),
    ("bash", "bash"), ("bash -c", "bash -c id"), ("bash -c id", "bash -c id"), ("sh x.sh", "sh -x x.sh"),
    ("bash x.sh", "bash y.sh"), ("busybox", "busybox ls"), ("strace git", "strace git log"),
    ("sudo git", "sudo git -c a=b log"), ("timeout 5 python", "timeout 5 python -c 1"), ("uv run", "uv run pytest"),
    ("uv run python", "uv run python -c 1"), ("npx", "npx x"), ("flock f", "flock f git"),
    ("flock f -c", "flock f -c id"), ("sudo PATH=.", "sudo PATH=. git"), ("env -S", "env -S 'git log'"),
    ("git", "g?t log"), ("ls", "ls -*"), ("ls", "ls *"), ("time", "time git log"),
]
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
# fmt: on


@pytest.mark.parametrize(("pattern", "line"), COVERED)
def test_a_rule_covers_what_its_program_is_for(pattern: str, line: str, judge: Judge) -> None:
    verdict = judge(line, allow=[pattern])
    assert (verdict.approval, [part.why for part in verdict.parts]) == (Approval.PRE_APPROVED, [None])


@pytest.mark.parametrize(("pattern", "line"), NOT_COVERED)
def test_a_rule_does_not_cover_what_it_does_not_say(pattern: str, line: str, judge: Judge) -> None:
    assert judge(line, allow=[pattern]).approval is Approval.ASK
    assert judge(line, allow=[pattern], default=Approval.BLOCKED).approval is Approval.BLOCKED


# fmt: off
OPTIONS_COVERED = [
    ("python", "python -m pytest tests/a*"), ("git", "git add src/*.py"), ("tar", "tar -tf a*"), ("ls", "ls a*"),
    ("make", "make -j4 test"), ("make", "make -ks test --no-print-directory"), ("tar", "tar -tzvf a.tgz"),
    ("gcc", "gcc -O2 -Wall -Iinclude -c a.c"), ("g++", "g++ -std=c++17 a.cc"), ("go", "go build ./..."),
    ("go", "go build -ldflags=-X=main.v=1 ./..."), ("curl", "curl -sSw '%{http_code}' http://h"),
    ("kubectl", "kubectl get pods -o wide"), ("pylint", "pylint a.py"), ("mypy", "mypy --strict src"),
    ("eslint", "eslint src"), ("python", "python -m json.tool in.json"), ("git", "git config get user.name"),
    ("git", "git config --get core.x y"), ("git", "git clone --filter=blob:none https://x.invalid/y"),
    ("mytool", "mytool --verbose --level=3 src/a.txt"), ("mytool", "mytool -la --format=json -j4 x"),
    ("mytool --config=./x", "mytool --config=./x a"), ("mytool -B./x", "mytool -B./x"),
    ("mytool", "mytool --url=https://x.invalid/y"), ("mytool", "mytool --message='a b'"),
    ("mytool", "mytool -- --plugin=./x"), ("diff", "diff -u a b"), ("grep", "grep --include=src/a.py -r x"),
    ("ls", "ls --color=auto"), ("pytest", "pytest -q -x --co tests/a.py"), ("apt-get", "apt-get update -q"),
    ("python", "python tool.py --plugin=./x"), ("ssh-keygen", "ssh-keygen -l -f k"), ("diff3", "diff3 a b c"),
]
OPTIONS_NOT_COVERED = [
    ("make", "make test -sE x"), ("make", "make -kC d"), ("make", "make -nef x"), ("make", "make test --eva=x"),
    ("make", "make --direc d"), ("make", "make -sI d"), ("make", "make a:=b"), ("gmake", "gmake -sf x"),
    ("diff3", "diff3 --diff-program=./x a b c"), ("diff3", "diff3 a b c --diff-p ./x"), ("sftp", "sftp -D ./x"),
    ("sftp", "sftp -qb x host"), ("scp", "scp -D ./x a b"), ("scp", "scp -rqD./x a h:b"), ("scp", "scp a h:b -F x"),
    ("gcc", "gcc -Bdir/ a.c"), ("gcc", "gcc -B dir a.c"), ("gcc", "gcc -specs=x a.c"), ("gcc", "gcc --specs=x a.c"),
    ("gcc", "gcc -Wl,-plugin,./x a.c"), ("gcc", "gcc @x"), ("gcc", "gcc a.c -fplugin=x"), ("gcc-12", "gcc-12 -Bx a.c"),
    ("g++", "g++ -wrapper ./x a.c"), ("clang", "clang -B./d a.c"), ("clang++-14", "clang++-14 -Xclang -load a.c"),
    ("cc", "cc -Bx a.c"), ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-gcc -Bx a.c"), ("c99", "c99 @x"),
    ("go", "go -C . run x.go"), ("go", "go -C=. generate"), ("go", "go -C x test"), ("go", "go build -C x"),
    ("go", "go build -ldflags=-extld=./x"), ("go", "go build -ldflags '-s -extldflags=-B.'"), ("go",
    "go test --exec x"),
    ("apt-get", "apt-get update -o A::B=id"), ("apt-get", "apt-get -qo A=id update"), ("apt", "apt -c x update"),
    ("curl", "curl --engine ./x h"), ("curl", "curl --eng x h"), ("curl", "curl -w '%output{F}' h"),
    ("curl", "curl -sSw '%output{>>F}' h"), ("curl", "curl --write-out='%output{F}' h"), ("curl", "curl -w @f h"),
    ("curl", "curl -sw@f h"), ("curl", "curl --expand-output x h"), ("man", "man -C ./x ls"), ("man", "man -kC x"),
    ("ssh-keygen", "ssh-keygen -D ./x"), ("ssh-keygen", "ssh-keygen -qD./x"), ("openssl", "openssl rand -engine x 1"),
    ("openssl", "openssl engine ./x"), ("openssl", "openssl req -config x"), ("openssl", "openssl rand -out x 1"),
    ("kubectl", "kubectl --kubeconfig=f get pods"), ("kubectl", "kubectl get pods --kubeconfig f"),
    ("kubectl", "kubectl edit x"), ("pylint", "pylint --init-hook=x a.py"), ("pylint", "pylint a.py --init-h x"),
    ("mypy", "mypy --config-file=x a.py"), ("mypy", "mypy a.py --python-exe=./x"), ("eslint", "eslint -c ./x a.js"),
    ("eslint", "eslint -cx a.js"), ("eslint", "eslint a.js --rulesdir=x"), ("python", "python -m json.tool a b"),
    ("python", "python -mjson.tool a b"), ("python3", "python3 -m pickle f"), ("python",
    "python -m cProfile -o x y.py"),
    ("git", "git config core.x get"), ("git", "git config core.x list"), ("git", "git config --local core.x list"),
    ("git", "git repack --filter-to=x"), ("git", "git repack --filter-t x"), ("git", "git read-tree --index-output=x"),
    ("tar", "tar -C d -xf a"), ("tar", "tar xfC a d"), ("tar", "tar cfF a ./x src"), ("rsync", "rsync -aM--x a b"),
    ("wget", "wget -qO x h"), ("npm", "npm --prefix x test"), ("cargo", "cargo --manifest-path x test"),
    ("terraform", "terraform -chdir=x plan"), ("uv", "uv --directory x sync"), ("pytest", "pytest -c x"),
    ("mytool", "mytool run --plugin=/tmp/x.so"), ("mytool", "mytool --x=./y"), ("mytool", "mytool --x=y/z"),
    ("mytool", "mytool --x=~/y"), ("mytool", "mytool --x=y.so"), ("mytool", "mytool --pager=x"),
    ("mytool", "mytool --x=sh"), ("mytool", "mytool --x='id;id'"), ("mytool", "mytool -B./x"),
    ("mytool", "mytool a -I/x"), ("mytool", "mytool -fx.mk"), ("mytool", "mytool -x=./y"), ("mytool",
    "mytool --config=f"),
    ("mytool", "mytool --exec=id"), ("mytool --config=./x", "mytool --config=./x --plugin=./y"),
    ("printf", "printf a* HOME"), ("make", "make S*"), ("go", "go r*"), ("kubectl", "kubectl e*"), ("dd", "dd o*"),
    ("git", "git config core.*"), ("git", "git fetch e*"), ("git", "git -C src clone e*"), ("tar", "tar x*"),
    ("python", "python -m json.tool a*"), ("npm", "npm x*"), ("docker", "docker r*"), ("openssl", "openssl e*"),
    ("timeout 5 mytool", "timeout 5 mytool --plugin=./x"), ("./x", "./x --out=/tmp/y"),
]
# fmt: on


@pytest.mark.parametrize(("pattern", "line"), OPTIONS_COVERED)
def test_options_that_only_change_how_it_is_done_are_covered(pattern: str, line: str, judge: Judge) -> None:
    verdict = judge(line, allow=[pattern])
    assert (verdict.approval, [part.why for part in verdict.parts]) == (PRE, [None])


@pytest.mark.parametrize(("pattern", "line"), OPTIONS_NOT_COVERED)
def test_options_are_read_as_the_program_reads_them(pattern: str, line: str, judge: Judge) -> None:
    assert (line, judge(line, allow=[pattern]).approval) == (line, ASK)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_of_the_tables_asks_in_each_of_its_spellings(name: str, judge: Judge) -> None:
    options = OPTIONS[name]
    spelled = []
    for letter in options.runs_short + options.writes_short:
        spelled += [f"-{letter} v", f"-{letter}v", f"-q{letter} v", f"a -q{letter}v", f"a -{letter}"]
    for long in (*options.runs, *options.writes):
        dashes = "" if long.startswith("-") else "--"
        spelled += [f"{dashes}{long}=v", f"{dashes}{long} v", f"a {dashes}{long} v"]
        spelled += [f"a --{long[:-1]}=v"] if dashes and len(long) > 3 else []
    for prefix in options.prefixes:
        spelled += [f"{prefix}v", f"a {prefix}v"]
    assert {line: judge(f"{name} {line}", allow=[name]).approval for line in spelled} == dict.fromkeys(spelled, ASK)


# fmt: off
BUILTINS: dict[str, tuple[list[str], list[str]]] = {
    ".": ([], [". x"]), ":": ([": a"], []), "[": (["[ -n x ]"], ["[ -v x ]", "[ -R x ]"]),
    "alias": ([], ["alias a=b", "alias"]), "bg": (["bg"], []), "bind": ([], ["bind -x a"]), "break": (["break"], []),
    "builtin": ([], ["builtin cd x"]), "caller": (["caller"], []), "cd": (["cd src"], ["cd", "cd ..", "cd -"]),
    "command": ([], ["command ls"]), "compgen": ([], ["compgen -C id"]), "complete": ([], ["complete -C id x"]),
    "compopt": ([], ["compopt -o x"]), "continue": (["continue"], []), "declare": ([], ["declare HOME=x"]),
    "dirs": ([], ["dirs -c"]), "disown": ([], ["disown"]), "echo": (["echo -n x"], []), "enable": ([], ["enable -n [",
    "enable -f x y"]),
    "eval": ([], ["eval ls"]), "exec": ([], ["exec ls", "exec", "exec > o"]), "exit": (["exit 1"], []), "export": ([],
    ["export HOME=x"]),
    "false": (["false"], []), "fc": ([], ["fc -s"]), "fg": (["fg"], []), "getopts": ([], ["getopts a HOME"]),
    "hash": ([], ["hash -p x ls"]), "help": (["help cd"], []), "history": ([], ["history -w x"]),
    "jobs": (["jobs -l"], ["jobs -x ls"]), "kill": (["kill -l"], []), "let": ([], ["let HOME=0"]), "local": ([],
    ["local HOME=x"]),
    "logout": (["logout"], []), "mapfile": ([], ["mapfile HOME"]), "popd": ([], ["popd"]),
    "printf": (["printf %s x", "printf '%%ln %s' x", "printf %d%% 1"], [
        "printf -v HOME x", "printf -vHOME x", "printf %n HOME", "printf %ln HOME", "printf %hn HOME",
        "printf %jn HOME",
        "printf %zn HOME", "printf %Ln HOME", "printf %tn HOME", "printf %hhlln HOME", "printf %-5.3ln HOME",
        "printf '%*ln' 3 HOME",
        "printf %%%ln HOME", "printf '%s%ln' a HOME", "printf -- %ln HOME", "printf %#ln HOME", "printf '% ln' HOME"]),
    "pushd": ([], ["pushd src"]), "pwd": (["pwd -P"], []), "read": ([], ["read HOME"]), "readarray": ([],
    ["readarray HOME"]),
    "readonly": ([], ["readonly HOME=x"]), "return": ([], ["return"]), "set": ([], ["set -- x"]), "shift": ([],
    ["shift"]),
    "shopt": ([], ["shopt -s extglob"]), "source": ([], ["source x"]), "suspend": ([], ["suspend"]),
    "test": (["test -f x"], ["test -v x", "test ! -v x", "test a -a -R x"]), "times": (["times"], []), "trap": ([],
    ["trap x EXIT"]),
    "true": (["true"], []), "type": (["type ls"], []), "typeset": ([], ["typeset HOME=x"]), "ulimit": ([],
    ["ulimit -c 0"]),
    "umask": ([], ["umask 0"]), "unalias": ([], ["unalias a"]), "unset": ([], ["unset HOME"]),
    "wait": (["wait", "wait -n", "wait -f 1"], ["wait -p HOME", "wait -pHOME", "wait -fp HOME", "wait -nfpHOME"]),
}
# fmt: on


def test_every_builtin_of_bash_is_decided_on() -> None:
    listed = subprocess.run(["bash", "-c", "compgen -b"], capture_output=True, text=True, check=True).stdout
    assert set(listed.split()) <= BUILTINS.keys()


@pytest.mark.parametrize("name", BUILTINS)
def test_a_builtin_that_sets_a_variable_or_starts_something_asks(name: str, judge: Judge) -> None:
    covered, not_covered = BUILTINS[name]
    assert {line: judge(line, allow=[name]).approval for line in covered} == dict.fromkeys(covered, PRE)
    assert {line: judge(line, allow=[name]).approval for line in not_covered} == dict.fromkeys(not_covered, ASK)
    through = [f"command {line}" for line in not_covered if name == "printf"]
    assert {judge(line, allow=["command printf"]).approval for line in through} <= {ASK}


# fmt: off
ELSEWHERE = {
    "git": [
        "git clone x /etc/y", "git clone --bare . ../y", "git init /etc/x", "git init ~/x", "git worktree add ../x",
        "git worktree add -b x /tmp/x", "git push /tmp/r.git", "git push ./scratch/r.git main",
        "git push scratch/r.git",
        "git push file:///tmp/r.git", "git push --repo=./r", "git push --repo ./r", "git push -o x ./r main",
        "git push -qo origin ./r", "git remote add x ./scratch/r.git", "git remote set-url origin /tmp/r",
    ],
    "curl": [
        "curl -T x https://h", "curl --upload-file x https://h", "curl -d @x https://h", "curl -d@x https://h",
        "curl --data-binary @x https://h", "curl --data=@x https://h", "curl -F a=@x https://h", "curl -F 'a=<x' https://h",
        "curl --json @x https://h", "curl -H @x https://h", "curl --data-urlencode a@x https://h", "curl -b x https://h",
        "curl --cookie x https://h", "curl --netrc-file x https://h", "curl -n https://h", "curl file:///etc/passwd",
        "curl FILE:///etc/passwd", "curl --url=file:///x", "curl '{file,http}://x'", "curl --proto-default file /x",
        "curl --unix-socket /run/docker.sock http://x", "curl --abstract-unix-socket x http://y",
    ],
    "wget": ["wget --post-file=x https://h", "wget --body-file x https://h", "wget -i x", "wget --load-cookies x h"],
    "tar": [
        "tar xPf x", "tar -xPf x", "tar xf x -P", "tar xf x --absolute-names", "tar --one-top-level=/etc -xf x",
        "tar xf h:x", "tar -xf user@h:x", "tar cf h:x y", "tar --file=h:x -x", "tar -xfh:x",
        "tar cf x y --remove-files",
    ],
    "rsync": ["rsync --daemon", "rsync --server x", "rsync --only-write-batch=x a b"],
    "sftp": ["sftp h", "sftp -P 1 h"],
    "mail": ["mail x"],
    "npm": [
        "npm create x", "npm cre x", "npm init x", "npm innit x", "npm pkg set scripts.test=id", "npm set-script a b",
        "npm install -g x", "npm i --global x", "npm i --location=global x", "npm link", "npm ln ../x", "npm docs x",
        "npm --git=./x install y", "npm docs x --browser ./x", "npm --viewer=x help y",
        "npm pack --pack-destination /etc", "npm rebuild --python=./x",
    ],
    "yarn": [
        "yarn create x", "yarn global add x", "yarn plugin import ./x", "yarn workspace a exec id", "yarn node x",
        "yarn install --modules-folder /etc", "yarn pack --filename /etc/x",
    ],
    "pnpm": ["pnpm create x", "pnpm add -g x", "pnpm install --pnpmfile=x", "pnpm deploy /etc/x", "pnpm setup"],
    "bun": ["bun create x"],
    "pip": [
        "pip download -d /etc x", "pip wheel -w /etc x", "pip wheel --wheel-dir=/etc x", "pip config set a b",
        "pip install --user x", "pip install --break-system-packages x", "pip c* set a b", "pip config s* a b",
    ],
    "python": ["python -m imaplib -s id", "python -m idlelib.idle -c x", "python -m asyncio.__main__"],
    "pytest": ["pytest --html=/etc/x", "pytest --report-log /etc/x", "pytest --benchmark-json=x"],
    "coverage": ["coverage html -d /etc", "coverage xml -o /etc/x", "coverage combine --data-file=/etc/x"],
    "tox": ["tox exec -- id", "tox exec -e py -- id"],
    "poetry": ["poetry config a b", "poetry self add x", "poetry build -o /etc"],
    "pre-commit": ["pre-commit try-repo x"],
    "systemctl": ["systemctl edit x", "systemctl link ./x"], "xargs systemctl": ["xargs systemctl"],
    "gh": ["gh auth token", "gh gist create x", "gh secret set a", "gh release upload v1 x"],
    "gcloud": ["gcloud auth print-access-token", "gcloud config set a b", "gcloud compute scp a b"],
    "aws": ["aws configure", "aws --profile x configure set a b", "aws ecr get-login-password"],
    "unzip": ["unzip x -d /etc"], "zstd": ["zstd x -o /etc/x"], "cargo": ["cargo install --root /etc x"],
    "bandit": ["bandit -r x -o /etc/x"], "jest": ["jest --coverageDirectory=/etc"], "uv": ["uv build --out-dir /etc"],
}
STILL_COVERED = {
    "git": [
        "git push", "git push origin", "git push origin feature/x", "git push -u origin feature/x:refs/heads/y",
        "git push --tags", "git push git@h:a/b.git main", "git push https://h/a/b",
        "git push --force-with-lease origin x/y",
        "git clone https://h/a", "git clone ../a", "git clone https://h/a sub/a", "git init", "git init sub",
        "git worktree list", "git worktree add sub feature/x", "git remote add x https://h/a", "git remote show origin",
        "git remote set-branches origin feature/x",
    ],
    "curl": [
        "curl https://h", "curl -sSfL https://h", "curl -d a=b https://h", "curl -b a=b https://h", "curl -X PUT https://h",
        """curl -d '{"mail": "a@b", "url": "http://x"}' https://h""", "curl 'https://h/[1-3]'", "curl -u a:b https://h",
    ],
    "wget": ["wget https://h", "wget -q https://h"],
    "tar": ["tar tf x", "tar xzf x.tgz", "tar -xf x --strip-components=1", "tar cf x.tar y"],
    "rsync": ["rsync -av a b", "rsync -a a h:b"],
    "npm": ["npm install x", "npm i", "npm ci", "npm run build", "npm ls", "npm pkg get name", "npm test -- --grep x"],
    "yarn": ["yarn add x", "yarn run build"], "pnpm": ["pnpm add x", "pnpm run x"],
    "pip": ["pip install -r x", "pip list"],
    "python": ["python -m pytest", "python -m site"], "pytest": ["pytest -q --durations=3"],
    "coverage": ["coverage report", "coverage run -m pytest"], "tox": ["tox -e py"], "poetry": ["poetry install"],
    "gh": ["gh auth status", "gh gist list", "gh release list"], "aws": ["aws s3 ls"], "unzip": ["unzip -l x"],
    "gcloud": ["gcloud config list"], "systemctl": ["systemctl status x"], "cargo": ["cargo install x"],
}
# fmt: on


@pytest.mark.parametrize(("pattern", "line"), [(name, line) for name in ELSEWHERE for line in ELSEWHERE[name]])
def test_what_sends_files_starts_packages_or_writes_elsewhere_asks(pattern: str, line: str, judge: Judge) -> None:
    assert judge(line, allow=[pattern]).approval is ASK


@pytest.mark.parametrize(("pattern", "line"), [(name, line) for name in STILL_COVERED for line in STILL_COVERED[name]])
def test_what_looks_like_it_is_covered(pattern: str, line: str, judge: Judge) -> None:
    assert judge(line, allow=[pattern]).approval is PRE


@pytest.mark.parametrize("pattern", ["npm create", "npm pkg set", "yarn workspace", "gh auth token", "aws configure"])
def test_a_rule_may_spell_such_a_subcommand(pattern: str, judge: Judge) -> None:
    assert judge(f"{pattern} x", allow=[pattern]).approval is PRE


@pytest.mark.parametrize(
    "words",
    [
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
    ],
)
def test_a_name_of_secrets_asks_unless_the_rule_spells_it(words: str, judge: Judge) -> None:
    assert judge(f"cat {words}", allow=["cat"]).approval is ASK
    assert judge(f"cat x && cat {words}", allow=["cat"], default=Approval.BLOCKED).approval is Approval.BLOCKED
    assert judge(f"cat {words}", allow=[f"cat {words}"]).approval is PRE


@pytest.mark.parametrize("words", ["env", "a.env", "'x .env'", ".gitignore", ".git*", "x*.env", "sub/*", ".", "..env"])
def test_other_names_are_covered(words: str, judge: Judge) -> None:
    assert judge(f"cat {words}", allow=["cat"]).approval is PRE


@pytest.mark.parametrize(("line", "covered"), WRITES)
def test_redirections_write_below_writable_folders_and_read_below_the_working_directory(
    line: str, covered: bool, judge: Judge
) -> None:
    verdict = judge(line, allow=["ls", "cd"], writable=["scratch"])
    assert (verdict.approval is Approval.PRE_APPROVED) is covered


# fmt: off
MOVED = [
    ("cd src && ls", True), ("cd src && cat a.txt | grep x", True), ("cd src && git status", True),
    ("cd src; git log | head", True), ("cd . && ./x", True), ("cd src/.. && ./x", False), ("(cd src && pwd)", True),
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
# fmt: on
MOVED_RULES = ["cd", "ls", "cat", "grep", "head", "git", "make", "npm", "unknown", "pwd", "echo", "./x"]
MOVED_RULES += ["python x.py", "bash x.sh", "builtin cd", "command cd", "time cd", "eval cd"]


@pytest.mark.parametrize(("line", "covered"), MOVED)
def test_a_rule_is_for_the_working_directory(line: str, covered: bool, judge: Judge) -> None:
    verdict = judge(line, allow=MOVED_RULES, writable=["scratch"])
    assert (verdict.approval, line) == (PRE if covered else ASK, line)


def test_a_rule_may_name_the_other_folder(judge: Judge) -> None:
    assert judge("git -C scratch commit -m x", allow=["git -C scratch"], writable=["scratch"]).approval is PRE


def test_many_folders_that_a_shell_may_be_in_are_too_many(judge: Judge) -> None:
    line = "; ".join(f"cd d{number}" for number in range(5000))
    assert judge(f"{line}; ls", allow=["cd", "ls"]).approval is ASK


# fmt: off
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


@pytest.mark.parametrize(("line", "covered"), LINKED)
def test_a_file_is_written_unasked_only_where_no_command_of_the_line_may_have_made_links(
    line: str, covered: bool, judge: Judge
) -> None:
    rules = ["timeout 5 make", *(word for word in MOVED_RULES if " " not in word)]
    rules += ["ln", "mv", "cp", "tar", "sort", "tail", "head", "mkdir", "touch", "sleep", "true"]
    for verdict in (judge(line, allow=rules, writable=["scratch"]), judge(line, default=PRE, writable=["scratch"])):
        assert (verdict.approval, line) == (PRE if covered else ASK, line)


@pytest.mark.parametrize("folder", ["scratch", "./scratch", "scratch/"])
def test_a_writable_folder_may_be_spelled_as_people_do(folder: str, judge: Judge) -> None:
    assert judge("ls > scratch/o", allow=["ls"], writable=[folder]).approval is Approval.PRE_APPROVED


def test_the_whole_working_directory_may_be_writable(judge: Judge) -> None:
    assert judge("ls > o", allow=["ls"], writable=["."]).approval is Approval.PRE_APPROVED
    assert judge("ls > ../o", allow=["ls"], writable=["."]).approval is Approval.ASK


@pytest.mark.parametrize(
    "line", ["sudo ls", "ls $x", "ls > o", "A=1 ls", "bash x", "python -c 1", "export A=1", "ls *", ""]
)
def test_a_default_of_preapproved_is_lowered_by_the_same_things(line: str, judge: Judge) -> None:
    assert judge(line, default=Approval.PRE_APPROVED).approval is Approval.ASK


@pytest.mark.parametrize("line", ["ls", "make test | head", "./x a"])
def test_a_default_of_preapproved_covers_plain_commands(line: str, judge: Judge) -> None:
    assert judge(line, default=Approval.PRE_APPROVED).approval is Approval.PRE_APPROVED


def test_a_rule_that_asks_is_not_made_stricter_by_what_it_asks_about(judge: Judge) -> None:
    assert judge("sudo ls", ask=["sudo"], default=Approval.BLOCKED).approval is Approval.ASK
