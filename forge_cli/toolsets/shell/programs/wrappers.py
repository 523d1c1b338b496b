"""Programs that start other programs: how their words lead to the command inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.programs.names import names

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_LOADER = re.compile(r"ld(?:-[\w-]+)?\.so")
_VERSION = re.compile(r"(?<=[a-z+])[-.0-9]+\Z")
_PYTHON = re.compile(r"(python|pypy)[-.0-9]*(?:t|d|dbg|-dbg|td)?")
_EMULATOR = re.compile(r"qemu-(?!img|nbd|io|system)")
_NO_VERSION = names("diff3 c89 c99 base32 base64 flake8 autopep8 aria2c")
_COMPILER = re.compile(r"[a-z0-9_.-]+-(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ld|cpp)")


Walked = set[tuple[int, int, bool]]
"""Places in the words, with how many operands are still to come, and whether an option stands before."""


@dataclass(frozen=True)
class Wrapper:
    """The options of a wrapper, letters first; ``operands`` are its own words before the command."""

    flags: str = ""
    values: str = ""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    operands: int = 0
    assigns: bool = False
    reparses: bool = False
    """It joins the words and hands them to a shell."""
    feeds: bool = False
    """It adds words that come from elsewhere."""

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """Where the command inside starts; None when there is none, or an option is not known well enough to tell."""
        pos = start + 1
        while pos < len(words):
            word = words[pos]
            if word == "--":
                pos += 1
                break
            if self.assigns and ASSIGNMENT.match(word):
                pos += 1
                continue
            if not word.startswith("-"):
                break
            taken = self._taken(word)
            if taken is None:
                return None
            pos += taken
        pos += self.operands
        return pos if pos < len(words) and not words[pos].startswith("-") else None

    def _taken(self, option: str) -> int | None:
        """How many words an option takes, itself included."""
        if option.startswith("--"):
            name, equals, _ = option[2:].partition("=")
            if name in self.long_values:
                return 1 if equals else 2
            return 1 if name in self.long_flags and not equals else None
        for place, letter in enumerate(option[1:], 2):
            if letter in self.values:
                return 1 if place < len(option) else 2
            if letter not in self.flags:
                return None
        return 1 if len(option) > 1 else None

    def candidates(self, words: Sequence[str], start: int, walked: Walked | None = None) -> Iterator[int]:
        """Every place where the command inside could start, however the options are to be understood.

        What an earlier walk over the same words has ``walked`` is not walked again: it led to the same places.
        """
        walked = set() if walked is None else walked
        own, after_option = self.operands, False
        for pos in range(start + 1, len(words)):
            if (pos, own, after_option) in walked:
                return
            walked.add((pos, own, after_option))
            word = words[pos]
            if word.startswith("-"):
                after_option = self._taken(word) != 1 and word != "--" and "=" not in word
            elif self.assigns and "=" in word:
                after_option = False
            elif not ASSIGNMENT.match(word):
                yield pos
                if program(word) in WRAPPERS or not (own or after_option):
                    return
                own -= not after_option
                after_option = False


_SUDO = Wrapper("nEHSbP", "ugCDhpRTrt", names("set-home stdin non-interactive"), names("user group"), assigns=True)
_TIMEOUT = Wrapper("v", "ks", names("foreground preserve-status verbose"), names("kill-after signal"), operands=1)
_ENV = Wrapper("i0v", "uC", names("ignore-environment null debug"), names("unset chdir"), assigns=True)
_XARGS = Wrapper("0rtxo", "nPLsIdE", names("null no-run-if-empty verbose exit"), names("max-args"), feeds=True)

WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(names("timeout gtimeout"), _TIMEOUT),
    **dict.fromkeys(names("env genv"), _ENV),
    **dict.fromkeys(names("xargs gxargs"), _XARGS),
    **dict.fromkeys(names("busybox toybox builtin nohup gnohup unbuffer chronic fakeroot"), Wrapper()),
    **dict.fromkeys(names("uvx npx bunx pnpx rlwrap torsocks proxychains catchsegv"), Wrapper()),
    **dict.fromkeys(names("ccache sccache distcc icecc eatmydata annotate-output with-contenv"), Wrapper()),
    **dict.fromkeys(names("nice gnice"), Wrapper("", "n")),
    **dict.fromkeys(names("stdbuf gstdbuf"), Wrapper("", "ioe")),
    "sudo": _SUDO,
    "doas": Wrapper("n", "u"),
    "time": Wrapper("p"),
    "gtime": Wrapper("p"),
    "command": Wrapper("p"),
    "exec": Wrapper("cl", "a"),
    "setsid": Wrapper("fw"),
    "ionice": Wrapper("t", "cn"),
    "chrt": Wrapper("bfior", operands=1),
    "taskset": Wrapper("c", operands=1),
    "flock": Wrapper("sxnuoF", "wE", operands=1),
    "caffeinate": Wrapper("disu", "tw"),
    "watch": Wrapper("bdetgx", "n", reparses=True),
    "ssh": Wrapper("46AaCkNnqTtvxy", "pli", operands=1, reparses=True),
    "eval": Wrapper(reparses=True),
    "parallel": Wrapper("k", "j", reparses=True, feeds=True),
}
"""Wrappers that a pattern can reach through."""

ANYWHERE = names(
    """su runuser sg pkexec chroot proot unshare nsenter setpriv capsh bwrap firejail systemd-run systemd-nspawn strace
    ltrace perf valgrind gdb lldb script entr hyperfine prlimit numactl setarch linux32 linux64 runcon choom cgexec
    xvfb-run dbus-run-session start-stop-daemon run-parts nix-shell watchexec nodemon setuidgid chpst s6-setuidgid
    gosu su-exec tini dumb-init ld.so tsocks proxychains4 faketime arch i386 softlimit envdir envuidgid cpulimit
    nsjail minijail0 qemu sshpass mosh daemonize dbus-launch lxc-attach machinectl tmux screen sem ssh-agent logsave
    fakeroot-sysv fakeroot-tcp fakechroot fakeroot-ng systemd-inhibit systemd-cat systemd-socket-activate run0
    torify ifne pee mispipe lckdo zrun fstab-decode memusage sotruss latrace heaptrack debconf luit not uname26
    x86_64 setlock fghack pgrphack timelimit dtach abduco rlfe cset cgclassify operf ocount gprofng nsys ncu rr
    uftrace trace-cmd bpftrace sysdig gdbserver lldb-server wine wine64 mono box64 box86 aa-exec seccomp-tools xinit
    startx gnome-session-inhibit kde-inhibit xterm uxterm urxvt rxvt konsole gnome-terminal kitty alacritty foot
    terminator x-terminal-emulator lxterminal xfce4-terminal mpirun mpiexec orterun srun salloc sbatch qsub bsub
    prun horovodrun torchrun pdsh clush dsh pssh autossh chamber envconsul consul-template multitime bench catatonit
    s6-svscan s6-supervise s6-softlimit runsv runsvdir runit multilog svscan supervise cronic calife sux gksu gksudo
    kdesudo please lxc-execute lxc-start schroot dchroot pbuilder cowbuilder switch_root pivot_root tcpserver inetd
    xinetd scriptlive ts-node-dev reflex watchman-make when-changed onchange stap apptainer singularity ch-run
    runlim trickle sandbox-exec arch-chroot enroot udocker mock keychain gpg-agent
    dbus-update-activation-environment ck-launch-session seatd-launch cage weston-launch wsl lima distrobox-enter
    distrobox-host-exec flatpak-spawn host-spawn xcrun rsh rexec dbclient plink et waypipe jexec salt salt-call salt-ssh
    vboxmanage vmrun cmd watchfiles watchmedo watchgod watchdog"""
)
"""Wrappers whose options are too many to follow: the command inside may start at any word."""

SHELLS = names("bash sh dash zsh ksh mksh ash fish csh tcsh rbash elvish nu pwsh powershell xonsh")
FIND_ACTIONS = names("-exec -execdir -ok -okdir")


@lru_cache(maxsize=4096)
def program(word: str) -> str:
    """The name that a program is known by: without its path, in lower case, without a version."""
    name = word.rsplit("/", 1)[-1].lower().removesuffix(".exe")
    if python := _PYTHON.fullmatch(name):
        return python[1]
    if name in WRAPPERS or name in SHELLS or name in ANYWHERE or name in _NO_VERSION:
        return name
    if _LOADER.match(name):
        return "ld.so"
    if _EMULATOR.match(name):
        return "qemu"
    name = _VERSION.sub("", name)
    cross = _COMPILER.fullmatch(name)
    return cross[1] if cross else name
