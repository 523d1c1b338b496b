"""The programs whose options are known: which of them start or load something, which write files.

A table like this is never whole. For programs that are in none of the tables see ``unknown.py``.
"""

from __future__ import annotations

from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.options import Options

_SORT = Options(runs=("compress-program",), writes=("output", "temporary-directory"), writes_short="oT")
_TAR = Options(
    runs=(
        *("to-command", "checkpoint-action", "use-compress-program", "rsh-command", "info-script"),
        *("new-volume-script", "rmt-command", "directory"),
    ),
    runs_short="IFC",
    writes=(*("index-file", "listed-incremental", "volno-file", "absolute-names", "one-top-level", "remove-files"),),
    writes_short="gP",
)
_FIND = Options(
    runs=("-exec", "-execdir", "-ok", "-okdir"), writes=("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
)
_MAKE = Options(runs=("file", "makefile", "eval", "directory", "include-dir"), runs_short="fCEI")
_CURL = Options(
    runs=("config", "engine", "unix-socket", "abstract-unix-socket"),
    runs_short="K",
    reads=("upload-file", "netrc", "netrc-file", "netrc-optional", "proto-default"),
    reads_short="Tn",
    writes=(
        *("output", "remote-name", "remote-name-all", "cookie-jar", "dump-header", "trace", "trace-ascii", "stderr"),
        *("libcurl", "etag-save", "hsts", "alt-svc", "create-dirs", "output-dir", "ssl-sessions"),
    ),
    writes_short="oOcD",
    prefixes=("--expand-",),
)
_WGET = Options(
    runs=("execute", "use-askpass", "config"),
    runs_short="e",
    writes=(
        *("output-document", "output-file", "append-output", "directory-prefix", "save-cookies", "hsts-file"),
        *("warc-file", "rejected-log"),
    ),
    writes_short="OoaP",
    reads=("post-file", "body-file", "load-cookies", "input-file", "input-metalink"),
    reads_short="i",
)
_COMPILER = Options(
    runs=("-wrapper", "-specs", "-Xclang", "-Xlinker", "-Xassembler", "-load", "-iplugindir"),
    prefixes=(
        *("-B", "-fplugin", "-fpass-plugin", "-Wl,", "-Wa,", "-Wp,", "-fuse-ld", "--ld-path", "--config", "-ccc-", "@"),
        *("-specs", "--specs", "-T", "--sysroot", "--gcc-toolchain"),
    ),
)
_GO = Options(
    runs=("-exec", "-toolexec", "-vettool", "-overlay", "-modfile", "-C", "-pkgdir", "-compiler", "-gccgoflags"),
    writes=("-w", "-o", "-cpuprofile", "-memprofile", "-coverprofile", "-blockprofile", "-trace", "-outputdir"),
)
_APT = Options(runs=("option", "config-file"), runs_short="oc")
_MAN = Options(
    runs=("pager", "html", "browser", "config-file", "gxditview", "preprocessor", "troff-device", "ditroff", "manpath"),
    runs_short="PHCXpTtZM",
)
_OPENSSL = Options(
    runs=("-engine", "-provider", "-provider-path", "-config", "-configfile", "-keygen_engine", "-ssl_client_engine"),
    writes=("-out", "-keyout", "-writerand", "-CAserial", "-CAcreateserial", "-certsout", "-outdir", "-sess_out"),
)
_JS_CONFIG = ("config", "config-file", "plugin", "plugins", "require", "import", "loader", "root", "rootDir", "project")
_PYTEST = Options(
    runs=(
        *("--rootdir", "--confcutdir", "--override-ini", "--pdbcls", "--import-mode", "--config-file", "--tx"),
        *("--cov-config", "--ds", "--rsyncdir"),
    ),
    writes=(
        *("--basetemp", "--junitxml", "--junit-xml", "--debug", "--pastebin", "--cov-report", "--log-file", "--html"),
        *("--report-log", "--resultlog", "--json-report-file", "--benchmark-json", "--benchmark-storage"),
        *("--benchmark-histogram", "--alluredir", "--durations-path", "--pstats-dir"),
    ),
    prefixes=("-c", "-p", "-o", "@"),
)
_MYPY = Options(
    runs=("config-file", "python-executable", "custom-typeshed-dir", "install-types"),
    prefixes=("@",),
    writes=("cache-dir", "junit-xml", "html-report", "xml-report", "txt-report", "any-exprs-report"),
)
_CLUSTER = Options(
    runs=(
        *("--kubeconfig", "--post-renderer", "--repository-config", "--registry-config", "--cache-dir"),
        "--kustomize",
    ),
    prefixes=("-k",),
    writes=("--output-directory", "--output-dir", "--profile-output", "--log-file", "--log-dir"),
)
_CONTAINERS = Options(
    runs=(
        *("--config", "--conmon", "--runtime", "--runtime-flag", "--hooks-dir", "--module", "--network-cmd-path"),
        *("--cni-path", "--cni-netconfpath", "--podman-path", "--podman-args", "--podman-run-args", "--root"),
        *("--runroot", "--imagestore", "--signature-policy", "--verify", "--sign"),
    ),
    writes=("--output", "--digestfile", "--iidfile", "--cidfile", "--metadata-file"),
    writes_short="o",
)

OPTIONS: dict[str, Options] = {
    **dict.fromkeys(names("sort gsort"), _SORT),
    **dict.fromkeys(names("tar gtar bsdtar"), _TAR),
    **dict.fromkeys(names("find gfind"), _FIND),
    **dict.fromkeys(names("make gmake bmake"), _MAKE),
    **dict.fromkeys(names("fd fdfind"), Options(runs=("exec", "exec-batch"), runs_short="xX")),
    **dict.fromkeys(names("nc ncat netcat"), Options(runs=("exec", "sh-exec", "lua-exec"), runs_short="ec")),
    "scp": Options(runs_short="SoDF"),
    "sftp": Options(runs_short="SoDFbs"),
    "ssh-keygen": Options(runs_short="Dw"),
    "ssh-add": Options(runs_short="sS"),
    "ssh-copy-id": Options(runs_short="oF"),
    "rg": Options(runs=("pre", "hostname-bin")),
    **dict.fromkeys(names("ag ack bat delta"), Options(runs=("pager", "ackrc"))),
    "fzf": Options(runs=("preview", "bind", "with-shell", "listen")),
    "split": Options(runs=("filter",)),
    "install": Options(runs=("strip-program",)),
    "nmap": Options(runs=("script", "datadir"), writes_short="o"),
    "tcpdump": Options(runs_short="z", writes_short="w"),
    **dict.fromkeys(names("tshark wireshark"), Options(runs_short="X", writes_short="w")),
    "xmllint": Options(runs=("shell",), writes=("output",), writes_short="o"),
    "curl": _CURL,
    "wget": _WGET,
    "aria2c": Options(
        runs=("conf-path", "input-file"), prefixes=("--on-",), writes=("dir", "out", "log"), writes_short="dol"
    ),
    **dict.fromkeys(
        names("yt-dlp yt_dlp youtube-dl youtube_dl"), Options(runs=("exec", "config-locations", "downloader"))
    ),
    "rsync": Options(
        runs=("rsh", "rsync-path", "config", "remote-option", "daemon", "server"),
        runs_short="eM",
        writes=("log-file", "write-batch", "only-write-batch", "backup-dir", "temp-dir", "partial-dir"),
        writes_short="T",
    ),
    "zip": Options(runs=("unzip-command",), runs_short="T", writes=("output-file",), writes_short="Ob"),
    "unzip": Options(writes_short="d"),
    **dict.fromkeys(names("zstd xsltproc"), Options(writes=("output", "output-dir-flat"), writes_short="o")),
    "man": _MAN,
    "less": Options(runs=("lesskey-src", "lesskey-file", "lesskey-content"), writes=("log-file",), writes_short="oOk"),
    "info": Options(writes=("output", "dribble"), writes_short="o"),
    **dict.fromkeys(names("groff troff nroff"), Options(runs_short="UmMIPX")),
    "tree": Options(writes=("output",), writes_short="o"),
    "iconv": Options(writes=("output",), writes_short="o"),
    **dict.fromkeys(names("diff3 sdiff"), Options(runs=("diff-program",), writes=("output",), writes_short="o")),
    "file": Options(writes=("compile",), writes_short="C"),
    "date": Options(writes=("set",), writes_short="s"),
    "yq": Options(writes=("inplace", "in-place", "split-exp"), writes_short="is"),
    "shuf": Options(writes=("output",), writes_short="o"),
    "patch": Options(runs=("directory",), runs_short="d", writes=("output", "reject-file"), writes_short="or"),
    "dd": Options(prefixes=("of=",)),
    "pandoc": Options(
        runs=("filter", "lua-filter", "pdf-engine", "defaults", "template", "data-dir"),
        runs_short="FLd",
        writes=("output", "extract-media", "log"),
        writes_short="o",
    ),
    **dict.fromkeys(
        names("gcc g++ cc c++ clang clang++ cpp gfortran tcc icc c89 c99 gnat gccgo ld ld.bfd ld.gold ld.lld lld"),
        _COMPILER,
    ),
    **dict.fromkeys(
        names("ar nm objdump ranlib size readelf objcopy strip gcov"), Options(runs=("plugin",), prefixes=("@",))
    ),
    "rustc": Options(runs=("codegen",), prefixes=("-C", "-Z", "@"), writes=("out-dir",)),
    "cargo": Options(runs=("config", "manifest-path"), prefixes=("-C", "-Z"), writes=("target-dir", "root")),
    **dict.fromkeys(
        names("java javac javaw"),
        Options(
            prefixes=(
                *("-javaagent", "-agentlib", "-agentpath", "-XX:", "-Xplugin", "-processor", "--processor", "-J", "@"),
            )
        ),
    ),
    "mvn": Options(runs=("file", "settings", "global-settings"), prefixes=("-f", "-s", "-gs", "-D")),
    **dict.fromkeys(
        names("gradle gradlew"),
        Options(
            runs=("project-dir", "build-file", "init-script", "settings-file", "include-build", "gradle-user-home"),
            runs_short="pbIcg",
        ),
    ),
    "cmake": Options(runs=("toolchain", "build", "install"), prefixes=("-P", "-C", "-E", "-S", "-B", "-H", "-DCMAKE_")),
    "ninja": Options(runs_short="Cft"),
    "meson": Options(runs=("native-file", "cross-file"), runs_short="C"),
    "go": _GO,
    "gofmt": Options(writes=("-cpuprofile",), writes_short="w"),
    **dict.fromkeys(names("apt apt-get apt-cache aptitude apt-config apt-mark"), _APT),
    "dpkg": Options(runs=("pre-invoke", "post-invoke", "admindir", "root", "instdir", "status-logger")),
    "rpm": Options(runs=("eval", "define", "macros", "pipe", "rcfile", "load", "root", "dbpath"), runs_short="ED"),
    **dict.fromkeys(names("dnf yum"), Options(runs=("setopt", "config", "installroot"), runs_short="c")),
    "openssl": _OPENSSL,
    **dict.fromkeys(
        names("gpg gpg2 gpgv"),
        Options(
            runs=("dirmngr-program", "exec-path", "options", "homedir", "photo-viewer", "load-extension"),
            prefixes=("--agen",),
            writes=("output",),
            writes_short="o",
        ),
    ),
    **dict.fromkeys(names("kubectl oc helm"), _CLUSTER),
    **dict.fromkeys(
        names("docker podman podman-remote nerdctl docker-compose podman-compose buildah skopeo"), _CONTAINERS
    ),
    **dict.fromkeys(
        names("terraform tofu"),
        Options(
            runs=("-chdir", "-plugin-dir", "-backend-config", "-var-file"), writes=("-out", "-state-out", "-state")
        ),
    ),
    **dict.fromkeys(
        names("ansible ansible-playbook"),
        Options(
            runs=(
                "args",
                "module-name",
                "module-path",
                "extra-vars",
                "inventory",
                "vault-password-file",
                "playbook-dir",
            ),
            runs_short="amMei",
        ),
    ),
    "svn": Options(runs=("diff-cmd", "diff3-cmd", "editor-cmd", "config-dir", "config-option")),
    "hg": Options(runs=("config", "cwd", "repository", "pager"), runs_short="R"),
    **dict.fromkeys(
        names("npm pnpm yarn"),
        Options(
            runs=(
                *(
                    "script-shell",
                    "node-options",
                    "globalconfig",
                    "userconfig",
                    "prefix",
                    "dir",
                    "cwd",
                    "use-node-version",
                ),
                *("config-dir", "node-gyp", "git", "viewer", "browser", "editor", "shell", "init-module", "python"),
                *("nodedir", "devdir", "pnpmfile", "global-pnpmfile", "use-yarnrc"),
            ),
            prefixes=("-C",),
            writes=(
                *("global", "location", "cache-folder", "global-folder", "link-folder", "modules-folder", "logs-dir"),
                *("pack-destination", "store-dir", "virtual-store-dir", "modules-dir", "state-dir", "cache-dir"),
                *("global-dir", "lockfile-dir", "filename"),
            ),
            writes_short="g",
        ),
    ),
    **dict.fromkeys(
        names("pip pipx"),
        Options(
            runs=("python", "config-settings", "global-option", "editor"),
            writes=(
                *("log", "target", "prefix", "root", "src", "report", "cache-dir", "dest", "wheel-dir", "user"),
                "break-system-packages",
            ),
            writes_short="tdw",
        ),
    ),
    "uv": Options(
        runs=("directory", "project", "config-file", "python"),
        writes=("cache-dir", "target", "prefix", "out-dir", "output-file"),
        writes_short="o",
    ),
    "poetry": Options(runs=("directory", "project"), prefixes=("-C", "-P"), writes=("output",), writes_short="o"),
    **dict.fromkeys(names("pdm hatch"), Options(runs=("project", "config"), prefixes=("-p", "-c"))),
    **dict.fromkeys(
        names("tox nox pre-commit pre_commit"),
        Options(runs=("root", "workdir", "override", "noxfile", "config", "conf"), runs_short="cfx"),
    ),
    **dict.fromkeys(names("pytest py.test"), _PYTEST),
    "coverage": Options(runs=("rcfile",), writes=("data-file", "directory"), writes_short="od"),
    "pylint": Options(runs=("init-hook", "load-plugins", "rcfile"), writes=("output",)),
    **dict.fromkeys(names("mypy dmypy"), _MYPY),
    **dict.fromkeys(
        names("flake8 ruff black isort bandit pyright yapf autopep8 pydocstyle"),
        Options(
            runs=(
                "config",
                "append-config",
                "settings-path",
                "settings-file",
                "sp",
                "project",
                "pythonpath",
                "global-config",
            ),
            writes=("output-file", "output", "fix", "fix-only", "add-noqa"),
            writes_short="o",
        ),
    ),
    **dict.fromkeys(
        names("eslint stylelint prettier"),
        Options(
            runs=(
                *_JS_CONFIG,
                *("rulesdir", "parser", "resolve-plugins-relative-to", "format", "formatter", "custom-formatter"),
                *("custom-syntax", "plugin-search-dir", "config-basedir"),
            ),
            prefixes=("-c", "-f"),
            writes=("output-file", "fix"),
            writes_short="o",
        ),
    ),
    **dict.fromkeys(
        names("jest vitest mocha ava webpack vite rollup babel tsc swc esbuild parcel"),
        Options(
            runs=(
                *_JS_CONFIG,
                *(
                    "setupFiles",
                    "globalSetup",
                    "runner",
                    "testRunner",
                    "reporter",
                    "reporters",
                    "transform",
                    "ui",
                    "dir",
                ),
                *("build", "presets", "environment", "env-file"),
            ),
            prefixes=("-c", "-r", "-p", "-R", "-b"),
            writes=(
                "coverageDirectory",
                "cacheDirectory",
                "outDir",
                "outFile",
                "outdir",
                "outfile",
                "out-file",
                "out-dir",
                "output-path",
                "outputFile",
            ),
        ),
    ),
    "wait": Options(writes_short="p"),
    "jobs": Options(runs_short="x"),
}
