"""Programs that only read what they are told to: no file beside those that their words name changes what they do."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.toolsets.shell.programs.git import GitWords
from forge_cli.toolsets.shell.programs.names import names

READERS = names(
    """cat tac nl rev head tail wc ls dir vdir stat file tree du df find fd fdfind grep egrep fgrep rg sort uniq cut
    paste tr column comm join fold fmt pr expand unexpand diff cmp sdiff md5sum sha1sum sha224sum sha256sum sha384sum
    sha512sum b2sum cksum sum od xxd hexdump strings base64 base32 jq sed awk gawk mawk basename dirname realpath
    readlink namei which whereis echo printf true false : test [ pwd type help times caller cd date cal id whoami
    groups logname users who w uname hostname nproc uptime free ps pgrep lsof seq sleep expr factor numfmt tput
    tty printenv locale getconf lscpu lsblk cloc tokei zcat zgrep bzcat xzcat"""
)
_GIT_READERS = names(
    """blame branch cat-file check-ignore count-objects describe diff diff-files diff-index diff-tree for-each-ref grep
    help log ls-files ls-tree merge-base name-rev range-diff reflog rev-list rev-parse shortlog show show-branch
    show-ref status version whatchanged"""
)

_MAKE_NO_LINKS = names(
    """mkdir rmdir touch rm unlink chmod tee truncate mkfifo mktemp wait exit kill jobs sync split csplit"""
)


def makes_no_links(argv: Sequence[str]) -> bool:
    """Whether a command surely leaves every path its meaning, but for plain files that it makes or removes."""
    return only_reads(argv) or argv[0] in _MAKE_NO_LINKS


def only_reads(argv: Sequence[str]) -> bool:
    """Whether a command does the same in any folder, but for the files that it is told to read."""
    if argv[0] != "git":
        return argv[0] in READERS
    place = GitWords(argv).subcommand(0)
    return place >= len(argv) or argv[place] in _GIT_READERS
