"""Subcommands that start or set up other programs, and programs that start any ``NAME-x`` for a subcommand ``x``."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.programs.containers import PLAIN
from forge_cli.toolsets.shell.programs.git import git_hazard
from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.runners import path_ends


@dataclass(frozen=True)
class BuiltIn:
    """The subcommands that are part of a program; ``values`` are the options before them that take a value."""

    subcommands: frozenset[str]
    values: frozenset[str] = frozenset()

    def foreign(self, words: Sequence[str], reach: int) -> str | None:
        """The subcommand if it is not built in, and not spelled by a rule of ``reach`` tokens."""
        pos = 1
        while pos < len(words) and words[pos].startswith(("-", "+")):
            pos += 2 if words[pos] in self.values else 1
        return None if pos >= len(words) or pos < reach or words[pos] in self.subcommands else words[pos]


_ENV = names(
    """activate commands completions deactivate doctor exec global help hooks init install latest local prefix rehash
    root shell shims uninstall update version version-file version-name version-origin versions virtualenv
    virtualenv-delete virtualenv-init virtualenvs whence which"""
)

BUILT_IN: dict[str, BuiltIn] = {
    "cargo": BuiltIn(
        names(
            """add b bench build c check clean clippy config d doc fetch fix fmt generate-lockfile help info init
            install locate-project login logout metadata miri new owner package pkgid publish r read-manifest remove
            report rm run rustc rustdoc search t test tree uninstall update vendor verify-project version yank"""
        ),
        names("--color"),
    ),
    "gh": BuiltIn(
        names(
            """alias api attestation at auth browse cache co codespace codespaces completion config cs ext
            extension extensions gist gpg-key help issue label licenses org pr preview project release repo rs ruleset
            run search secret ssh-key status variable version workflow"""
        ),
        names("-R --repo"),
    ),
    "brew": BuiltIn(
        names(
            """analytics autoremove bundle casks cat cleanup commands completions config deps desc doctor dr edit fetch
            formulae formula gist-logs help home info abv install leaves link ln list ls log migrate missing options
            outdated pin postinstall readall reinstall rm remove uninstall search services shellenv tap tap-info test
            unlink unpin untap update update-reset upgrade uses which-formula --cache --prefix --repository"""
        )
    ),
    "conda": BuiltIn(
        names(
            """activate clean compare config create deactivate doctor env export info init install list notices package
            remove rename repoquery run search uninstall update upgrade"""
        )
    ),
    **dict.fromkeys(names("pyenv rbenv nodenv goenv jenv"), BuiltIn(_ENV)),
    "bundle": BuiltIn(
        names(
            """add binstubs cache check clean config doctor env exec fund gem help info init inject install issue
            licenses list lock open console outdated platform plugin pristine remove show update version viz"""
        )
    ),
}

_PACKAGES = names("edit set config/set config/edit c/set c/edit")
STARTING: dict[str, frozenset[str]] = {
    "go": names("run generate tool bug"),
    "openssl": names("engine"),
    **dict.fromkeys(names("npm pnpm yarn"), _PACKAGES | names("explore")),
    **dict.fromkeys(names("kubectl oc"), names("edit debug proxy plugin config/set config/set-credentials")),
    "helm": names("plugin/install plugin/update plugin/add"),
    "docker": names("plugin/install plugin/set plugin/create plugin/enable plugin/upgrade"),
    **dict.fromkeys(names("lxc incus"), names("config/device")),
    "vagrant": names("plugin/install"),
    "heroku": names("plugins:install plugins/install plugins:link plugins/link"),
    "bundle": names("open console plugin/install"),
    "brew": names("edit"),
    "gh": names(
        """alias/set alias/import config/set extension/install extensions/install ext/install extension/upgrade
        extensions/upgrade ext/upgrade codespace/code codespaces/code cs/code codespace/jupyter codespaces/jupyter
        cs/jupyter codespace/cp codespaces/cp cs/cp"""
    ),
}
"""Paths of subcommands that start another program, or set up what is started later."""

_CREATE = names("create link")
UNLESS_SPELLED: dict[str, frozenset[str]] = {
    "npm": _CREATE
    | names(
        """cr cre crea creat ini init inni innit lin ln pkg/set pkg/delete set-script set-scrip set-scri set-scr bugs
        issues docs home repo"""
    ),
    "yarn": _CREATE | names("global plugin node workspace workspaces unplug"),
    "pnpm": _CREATE | names("setup env server deploy"),
    "bun": _CREATE,
    "pip": names("config/set config/edit config/unset"),
    "poetry": names("config self"),
    **dict.fromkeys(names("pre-commit pre_commit"), names("try-repo")),
    "systemctl": names("edit link enable reenable preset set-environment import-environment"),
    "gh": names("auth/token gist/create release/upload secret/set ssh-key/add gpg-key/add"),
    "gcloud": names(
        """auth/print-access-token auth/print-identity-token auth/application-default/print-access-token
        config/config-helper config/set compute/scp alpha/compute/scp beta/compute/scp"""
    ),
    "aws": names(
        """configure ecr/get-login-password eks/get-token eks/update-kubeconfig secretsmanager/get-secret-value
        sts/assume-role sts/get-session-token"""
    ),
    "az": names("account/get-access-token keyvault/secret/show"),
}
"""Paths that start a package or set up what is started later, print credentials, or write or send files."""


def subcommand_hazard(name: str, words: Sequence[str], reach: int) -> str | None:
    """Why a rule of ``reach`` tokens does not cover the subcommand among these words."""
    if name in STARTING and (end := next(path_ends(words, 0, STARTING[name]), None)):
        return f"{name} {''.join(words[end : end + 1])} starts other programs, or sets up what is started"
    for end in path_ends(words, 0, UNLESS_SPELLED.get(name, ())):
        if end >= reach:
            return f"{name} {' '.join(words[1 : end + 1])} starts, sets up, sends or prints more; a rule can spell it"
    if name in BUILT_IN and (foreign := BUILT_IN[name].foreign(words, reach)):
        return f"{foreign} is not built into {name}, which starts a program of that name; a rule can spell it"
    if name in PLAIN and (other := PLAIN[name].other(words, reach)):
        return f"{name} {other} may start what a file or a plugin says, or write files here; a rule can spell it"
    if name == "gh" and "--" in words and not {"clone", "fork"}.isdisjoint(words[:4]):
        return git_hazard(["git", "clone", *words[list(words).index("--") + 1 :]])
    return None
