"""Programs for containers and clusters: their subcommands that neither start what a file says nor write files here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.programs.names import names


@dataclass(frozen=True)
class PlainPaths:
    """The paths of subcommands that a rule covers without spelling them, and the options that may stand between.

    All others ask, also those that are not known: ``docker compose up`` and ``kubectl apply`` start what a file says,
    ``docker cp`` and ``podman save`` write files, and any other name may be that of a plugin.
    """

    paths: frozenset[str]
    values: frozenset[str] = frozenset()
    """Options that take a value. One that is neither here nor in ``flags`` asks."""
    flags: frozenset[str] = frozenset()

    def other(self, words: Sequence[str], reach: int) -> str | None:
        """The option or path of subcommands that is not one of these, and that no rule of ``reach`` tokens spells."""
        end, path = self._path(words, reach)
        return None if end < reach or path in self.paths or path in self._groups else path.replace("/", " ")

    def end(self, words: Sequence[str]) -> int:
        """The place of the word that ends the path; 0 where there is none."""
        return self._path(words, len(words))[0]

    def _path(self, words: Sequence[str], reach: int) -> tuple[int, str]:
        """Where the path ends, and the path; an unknown option behind the words of a rule stands for the path."""
        path, end, pos = "", 0, 1
        while pos < len(words) and (path == "" or path in self._groups) and path not in self.paths:
            word = words[pos]
            if word.startswith("-") and word != "--":
                taken = self._taken(word)
                if taken is None and pos >= reach:
                    return pos, word
                pos += taken or 1
                continue
            path, end, pos = f"{path}/{word}" if path else word, pos, pos + 1
        return end, path

    def _taken(self, option: str) -> int | None:
        """How many words an option takes, itself included; None where that is not known."""
        name, equals, _ = option.partition("=")
        if name in self.values:
            return 1 if equals else 2
        attached = not option.startswith("--") and option[:2] in self.values
        return 1 if attached or name in self.flags else None

    @cached_property
    def _groups(self) -> frozenset[str]:
        """The beginnings of longer paths."""
        parts = [path.split("/") for path in self.paths]
        return frozenset("/".join(part[:end]) for part in parts for end in range(1, len(part)))


def _below(group: str, subcommands: str) -> frozenset[str]:
    return frozenset(f"{group}/{name}" for name in subcommands.split())


_SET = "inspect list ls prune rm"
_CONTAINER = "diff inspect kill logs pause port rename restart rm stats stop top unpause update wait"
_COMPOSE = """config convert events help images kill list logs ls pause port ps pull push stats top unpause version
    volumes wait"""
_COMPOSE_VALUES = names(
    """-f --file -p --project-name --profile --env-file --project-directory --parallel --progress --ansi"""
)
_COMPOSE_FLAGS = names("--all-resources --compatibility --dry-run --verbose --version -v --help -h")
_ENGINE = frozenset().union(
    names(_CONTAINER),
    names("events help history images info ps pull rmi search tag version"),
    _below("container", f"{_CONTAINER} list ls prune ps"),
    _below("image", f"{_SET} history pull tag"),
    _below("network", f"{_SET} connect create disconnect"),
    _below("volume", f"{_SET} create"),
    _below("system", "df events info prune"),
    _below("manifest", "inspect rm"),
    _below("secret", _SET),
    _below("compose", _COMPOSE),
)
_DOCKER = _ENGINE.union(
    names("commit push container/commit image/push trust/inspect"),
    *(_below(group, _SET) for group in ("checkpoint", "config", "plugin")),
    _below("builder", "du prune"),
    _below("buildx", "du inspect ls prune stop version"),
    _below("context", "inspect list ls show"),
    _below("node", "inspect list ls ps"),
    _below("service", "inspect list logs ls ps rm rollback scale"),
    _below("stack", "list ls ps rm services"),
)
_PODMAN = _ENGINE.union(
    names("list untag image/tree image/untag container/exists image/exists network/exists volume/exists"),
    _below("pod", "exists inspect kill list logs ls pause prune ps restart rm stats stop top unpause"),
    _below("machine", "info inspect list ls"),
)
_DOCKER_VALUES = _COMPOSE_VALUES | names("-c --context -l --log-level --tlscacert --tlscert --tlskey")
_DOCKER_FLAGS = _COMPOSE_FLAGS | names("-D --debug --tls --tlsverify")
_PODMAN_VALUES = _COMPOSE_VALUES | names("--log-level --cgroup-manager --events-backend --storage-driver")
_PODMAN_FLAGS = _COMPOSE_FLAGS | names("--remote -r --syslog --noout --trace")
_NERDCTL_VALUES = _COMPOSE_VALUES | names("-n --namespace --snapshotter --storage-driver --cgroup-manager")
_NERDCTL_FLAGS = _COMPOSE_FLAGS | names("--debug --debug-full --insecure-registry --experimental")

_KUBECTL = frozenset().union(
    names(
        """annotate api-resources api-versions autoscale completion cordon delete describe diff drain events explain
        expose get help label logs options port-forward scale taint top uncordon version wait cluster-info"""
    ),
    _below("auth", "can-i whoami"),
    _below("config", "current-context get-clusters get-contexts get-users view"),
    _below("rollout", "history pause restart resume status undo"),
)
_OC = _KUBECTL | names("cancel-build idle image/info policy/who-can projects status tag whoami")
_KUBECTL_VALUES = names(
    """-n --namespace --context --cluster --user --server -s --token --as --as-group --as-uid --request-timeout
    --certificate-authority --client-certificate --client-key --tls-server-name --username --password -v --v"""
)
_KUBECTL_FLAGS = names(
    """--insecure-skip-tls-verify --match-server-version --warnings-as-errors --disable-compression --help -h"""
)
_SHOWN = "all chart crds readme values"
_HELM = frozenset().union(
    names("completion del delete env help hist history lint list ls rollback status template un uninstall verify"),
    names("version dep/list dep/ls dependency/list dependency/ls plugin/list plugin/ls"),
    _below("get", "all hooks manifest metadata notes values"),
    _below("repo", "list ls update"),
    _below("search", "hub repo"),
    *(_below(group, _SHOWN) for group in ("show", "inspect")),
)
_HELM_VALUES = names(
    """-n --namespace --kube-context --kube-apiserver --kube-as-user --kube-as-group --kube-ca-file --kube-token
    --kube-tls-server-name --burst-limit --qps"""
)
_BUILDAH = names("containers help images info inspect list ls manifest/inspect ps pull rm rmi tag umount version")
_SKOPEO = names("help inspect list-tags")

PLAIN: dict[str, PlainPaths] = {
    "docker": PlainPaths(_DOCKER, _DOCKER_VALUES, _DOCKER_FLAGS),
    **dict.fromkeys(names("podman podman-remote"), PlainPaths(_PODMAN, _PODMAN_VALUES, _PODMAN_FLAGS)),
    "nerdctl": PlainPaths(_ENGINE, _NERDCTL_VALUES, _NERDCTL_FLAGS),
    **dict.fromkeys(
        names("docker-compose podman-compose"), PlainPaths(names(_COMPOSE), _COMPOSE_VALUES, _COMPOSE_FLAGS)
    ),
    "kubectl": PlainPaths(_KUBECTL, _KUBECTL_VALUES, _KUBECTL_FLAGS),
    "oc": PlainPaths(_OC, _KUBECTL_VALUES, _KUBECTL_FLAGS),
    "helm": PlainPaths(_HELM, _HELM_VALUES, names("--debug --kube-insecure-skip-tls-verify --help -h")),
    "buildah": PlainPaths(_BUILDAH, names("--log-level"), names("--debug --version -v --help -h")),
    "skopeo": PlainPaths(_SKOPEO, names("--command-timeout"), names("--debug --version -v --help -h")),
}
