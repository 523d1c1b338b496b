"""Programs with a subcommand that starts another command: here, in a container, or on another machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.wrappers import Wrapper

_LOOKED_AT = 64
"""Words between a program and its subcommand; nobody means more."""


def subcommands(words: Sequence[str], start: int) -> Iterator[int]:
    """Where the subcommand of ``words[start]`` may stand: behind its options, any of which may take a value.

    Behind too many options it may stand anywhere: the last place is then the end of the words.
    """
    after_option = False
    for pos in range(start + 1, min(len(words), start + 1 + _LOOKED_AT)):
        word = words[pos]
        if word.startswith(("-", "+")):
            after_option = word[0] == "-" and word != "--" and "=" not in word
            continue
        yield pos
        if not after_option:
            return
        after_option = False
    if len(words) > start + 1 + _LOOKED_AT:
        yield len(words)


def path_ends(words: Sequence[str], start: int, paths: Iterable[str], *, abbreviated: bool = False) -> Iterator[int]:
    """Where a path of subcommands such as ``compose/exec`` may end, with options between its parts."""
    split = [path.split("/") for path in paths]
    return _ends(words, start, split, abbreviated=abbreviated)


def _ends(words: Sequence[str], start: int, paths: list[list[str]], *, abbreviated: bool) -> Iterator[int]:
    for pos in subcommands(words, start):
        if pos == len(words):
            yield pos
            return
        word = words[pos]
        rests = [path[1:] for path in paths if path[0] == word or (abbreviated and path[0].startswith(word))]
        if [] in rests:
            yield pos
        if longer := [rest for rest in rests if rest]:
            yield from _ends(words, pos, longer, abbreviated=abbreviated)


@dataclass(frozen=True)
class RunnerPaths:
    """The paths of subcommands that start a command, and what stands between them and that command."""

    paths: frozenset[str]
    wrapper: Wrapper = Wrapper()
    abbreviated: bool = False
    is_command: bool = False
    """The end of the path is the command itself, as ``k3s kubectl get``."""

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """Where the command inside starts at the latest; ``start`` if there is none, None if that cannot be told."""
        found = start
        for end in path_ends(words, start, self.paths, abbreviated=self.abbreviated):
            inner = self._behind(words, end)
            if inner is None:
                return None
            found = max(found, inner)
        return found

    def _behind(self, words: Sequence[str], end: int) -> int | None:
        if self.is_command:
            return end
        inner = self.wrapper.inner(words, end)
        if inner is None and "--" in words[end:]:
            inner = list(words).index("--", end) + 1
        return inner if inner is not None and inner < len(words) else None

    @cached_property
    def _last(self) -> frozenset[str]:
        return frozenset(path.rsplit("/", 1)[-1] for path in self.paths)

    def may_end_at(self, word: str) -> bool:
        """Whether a path may end with this word, wherever it stands."""
        return word in self._last or (self.abbreviated and any(last.startswith(word) for last in self._last))


_UV = Wrapper(
    "mqv",
    "pw",
    names("module quiet offline frozen locked no-sync isolated no-project all-extras all-groups no-dev"),
    names("with extra group package env-file"),
)
_DOCKER = Wrapper(
    "itdqTP",
    "evuwphlnm",
    names("rm interactive tty detach init privileged read-only no-deps no-TTY quiet"),
    names("name env volume user workdir network publish platform mount hostname env-file pull label memory cpus"),
    operands=1,
)
_KUBECTL = Wrapper("itq", "cn", names("stdin tty quiet"), names("container namespace context"), operands=1)
_PLACE = Wrapper(operands=1)
_REMOTE = Wrapper(reparses=True)
_REMOTE_PLACE = Wrapper(operands=1, reparses=True)
_CONTAINER = """run exec create attach container/run container/exec container/create container/attach compose/run
    compose/exec compose/attach service/create debug"""

RUNNERS: dict[str, RunnerPaths] = {
    "uv": RunnerPaths(names("run tool/run x"), _UV),
    "hatch": RunnerPaths(names("run env/run shell")),
    **dict.fromkeys(names("pdm rye mise conda asdf"), RunnerPaths(names("run exec x"))),
    **dict.fromkeys(names("poetry pipenv devbox"), RunnerPaths(names("run exec x shell"))),
    "npm": RunnerPaths(names("exec x explore"), abbreviated=True),
    **dict.fromkeys(names("pnpm yarn bun"), RunnerPaths(names("exec x dlx"))),
    "corepack": RunnerPaths(names("npm npx pnpm pnpx yarn yarnpkg"), is_command=True),
    **dict.fromkeys(names("bundle rbenv pyenv nodenv jenv goenv chezmoi"), RunnerPaths(names("exec"))),
    **dict.fromkeys(names("direnv aws-vault"), RunnerPaths(names("exec"), _PLACE)),
    **dict.fromkeys(names("pixi mamba micromamba volta nvm fnm snap flatpak"), RunnerPaths(names("run exec enter"))),
    **dict.fromkeys(names("op dotenv doppler foreman honcho railway infisical teller"), RunnerPaths(names("run ssh"))),
    "tox": RunnerPaths(names("exec e")),
    "pipx": RunnerPaths(names("run runpip")),
    "rustup": RunnerPaths(names("run"), _PLACE),
    "gh": RunnerPaths(names("extension/exec extensions/exec ext/exec codespace/ssh codespaces/ssh cs/ssh"), _REMOTE),
    **dict.fromkeys(names("docker nerdctl"), RunnerPaths(names(_CONTAINER), _DOCKER)),
    **dict.fromkeys(
        names("podman podman-remote"),
        RunnerPaths(names(f"{_CONTAINER} unshare machine/ssh container/runlabel"), _DOCKER),
    ),
    **dict.fromkeys(names("docker-compose podman-compose"), RunnerPaths(names("run exec attach"), _DOCKER)),
    "kubectl": RunnerPaths(names("run exec attach debug"), _KUBECTL),
    "oc": RunnerPaths(names("run exec attach debug rsh"), _KUBECTL),
    **dict.fromkeys(names("k3s microk8s k0s rke2"), RunnerPaths(names("kubectl crictl ctr helm"), is_command=True)),
    "minikube": RunnerPaths(names("ssh kubectl"), _REMOTE),
    "buildah": RunnerPaths(names("run unshare"), Wrapper("t", "ev", operands=1)),
    **dict.fromkeys(names("runc crun runsc youki"), RunnerPaths(names("run exec create do"), _PLACE)),
    "crictl": RunnerPaths(names("run exec create attach runp"), Wrapper("its", operands=1)),
    "ctr": RunnerPaths(
        names("run tasks/exec task/exec t/exec tasks/attach task/attach t/attach containers/create container/create"),
        _PLACE,
    ),
    **dict.fromkeys(names("lxc incus"), RunnerPaths(names("exec shell console"), _PLACE)),
    "multipass": RunnerPaths(names("exec shell sh"), _PLACE),
    "distrobox": RunnerPaths(names("enter run create ephemeral"), _PLACE),
    "toolbox": RunnerPaths(names("enter run"), Wrapper("", "cdr", operands=0)),
    "limactl": RunnerPaths(names("shell"), _REMOTE_PLACE),
    "colima": RunnerPaths(names("ssh"), _REMOTE),
    "guix": RunnerPaths(names("shell environment time-machine")),
    "vagrant": RunnerPaths(names("ssh winrm powershell docker-exec docker-run"), _REMOTE),
    "adb": RunnerPaths(names("shell exec-out exec-in"), _REMOTE),
    "hdc": RunnerPaths(names("shell"), _REMOTE),
    "heroku": RunnerPaths(names("run run:detached run:inside ps:exec ps/exec local:run local"), _REMOTE),
    **dict.fromkeys(
        names("fly flyctl"),
        RunnerPaths(
            names("ssh/console console machine/exec machines/exec m/exec machine/run machines/run m/run"),
            _REMOTE_PLACE,
        ),
    ),
    "gcloud": RunnerPaths(
        names(
            """compute/ssh alpha/compute/ssh beta/compute/ssh cloud-shell/ssh alpha/cloud-shell/ssh app/instances/ssh
            compute/tpus/tpu-vm/ssh alpha/compute/tpus/tpu-vm/ssh workstations/ssh compute/connect-to-serial-port"""
        ),
        _REMOTE_PLACE,
    ),
    "aws": RunnerPaths(
        names(
            """ssm/start-session ssm/send-command ssm/resume-session ecs/execute-command ec2-instance-connect/ssh
            emr/ssh eks/kubectl"""
        ),
        _REMOTE,
    ),
    "az": RunnerPaths(
        names(
            """ssh/vm ssh/arc vm/run-command vmss/run-command aks/command webapp/ssh container/exec container/attach
            containerapp/exec"""
        ),
        _REMOTE,
    ),
    **dict.fromkeys(
        names("doctl hcloud tsh tailscale coder devpod lando ddev eb copilot balena upsun okteto devspace cf"),
        RunnerPaths(
            names("ssh exec run compute/ssh server/ssh svc/exec task/run job/exec enter run-task kubectl"),
            _REMOTE_PLACE,
        ),
    ),
    "devcontainer": RunnerPaths(names("exec")),
    "docker-machine": RunnerPaths(names("ssh"), _REMOTE_PLACE),
    "nomad": RunnerPaths(names("exec alloc/exec"), _PLACE),
    "consul": RunnerPaths(names("exec"), _REMOTE),
    **dict.fromkeys(
        names("qm pct iocage vzctl prlctl waydroid"), RunnerPaths(names("exec enter shell guest/exec"), _PLACE)
    ),
    "ip": RunnerPaths(names("netns/exec vrf/exec"), _PLACE, abbreviated=True),
}
