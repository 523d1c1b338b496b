"""Commands that may read the input of the shell that started them.

Covers forge_cli.bashrules.stdin.
"""

from forge_cli.bashrules.line import read
from forge_cli.bashrules.stdin import may_read, may_read_itself

# fmt: off
READS_NOTHING = [
    "echo a", "ls -la", "date", "cat a.txt", "cat -n a.txt", "find . -name x", "git status", "git add .",
    "git add -A -v",
    "git log -p", "git diff --cached", "git show HEAD", "git checkout -b x", "git switch -c x",
    "git stash",
    "git stash pop", "git reset --hard", "git restore --staged x", "git tag v1", "git tag -l",
    "git fetch --all --prune",
    "git pull --ff-only", "git push -u origin x", "git branch -vv", "git -C src status", "sort < a.txt",
    "make < /dev/null",
    "git add -p < /dev/null", "echo y | git add -p", "git commit -F- <<< msg", "git tag -F- v1 <<< x",
    "date -f- <<< now",
    "make 2>&1 < /dev/null", "sort <<E\na\nE", "make < /dev/null > /dev/null 2>&1", "ls 2>&1", "ls >&2",
]
READS = [
    "cat", "cat -", "cat a -", "cat -n", "sort", "make", "bash", "read x", "python x.py", "git add -p",
    "git add --patch",
    "git add --patc", "git add -i", "git add --interactive", "git add -e", "git add --edit", "git add -vp",
    "git add -pv x",
    "git add x -p", "git add -pn", "git checkout -p", "git checkout HEAD -p x", "git checkout --pat", "git reset -p",
    "git reset HEAD --patch", "git restore -p x", "git restore -Sp", "git stash -p", "git stash push -p",
    "git stash save -p",
    "git stash push --patch", "git commit", "git commit -m x", "git commit -F -", "git commit -F-",
    "git commit --file=-",
    "git tag -F- v1", "git tag -F - v1", "git tag --file=- v1", "git tag -a v1", "git tag -as v1", "git tag --edit v1",
    "git tag --annotate v1", "git branch --edit-description", "git pull --rebase=interactive --edit", "git pull -e",
    "git rebase -i", "git am", "git apply -", "git apply", "git hash-object --stdin", "git log --stdin",
    "git rev-list --stdin",
    "git cat-file --batch", "git mktree", "git update-index --index-info", "git add --pathspec-from-file=-",
    "git add --pathspec-from-file -", "git clean -i", "git mergetool", "git -C src add -p", "git --no-pager add -p",
    "git blame --contents - x", "git blame --contents=- x", "git blame -S- x", "git diff --no-index - x",
    "git shortlog -",
    "date -f-", "date -f -", "date --file=-", "date --fil=-", "date -uf-", "date -f /dev/stdin", "date -f/dev/stdin",
    "stat -",
    "date -f /proc/self/fd/0", "cat /dev/fd/0", "cat /proc/self/fd/0", "cat /dev/tty", "ls | cat -; cat",
    "du --files0-from=-",
    "touch -r-", "find -files0-from -", "timeout 5 date -f-", "git add -p <&0", "git add -p 2>&1", "git add -p 3< a",
    "cat 3<&0 < /dev/null <&3", "cat 3>&0 < /dev/null 0>&3", "cat < /dev/null 0<&3", "cat < /dev/null 0>&3",
    "sort 00<&3 < a",
    "git add -p > a", "git add -p 3<<< y", "time cat", "$x", "cat $x",
]
# fmt: on


def test_programs_that_do_not_read_input_leave_the_next_line() -> None:
    assert [
        line
        for line in READS_NOTHING
        if may_read(read(line)) or may_read_itself(read(f"{line}\necho two\n"))
    ] == []


def test_programs_that_may_read_input_may_take_the_next_line() -> None:
    assert [
        line
        for line in READS
        if not may_read(read(line)) or not may_read_itself(read(f"{line}\necho two\n"))
    ] == []
    assert [line for line in READS if may_read_itself(read(f"{line}\n\n"))] == []
