"""Commands that fetch a package when they start, and whether they say which."""

import shlex

from forge_cli.toolsets.mcp.locked import pinned_spelling

from ...rows import each_row

DIGEST = "a" * 64
COMMIT = "b" * 40


@each_row(
    ("line", "fixed"),
    [
        ("npx -y server", "npx -y server@VERSION"),
        ("npx server", "npx server@VERSION"),
        ("/usr/bin/npx --yes @scope/server /data", "/usr/bin/npx --yes @scope/server@VERSION /data"),
        ("npx -y server@latest", "npx -y server@VERSION"),
        ("npx -y @scope/server@^1.2", "npx -y @scope/server@VERSION"),
        ("npx -y -p server run-it", "npx -y -p server@VERSION run-it"),
        ("npx --package=server run-it", "npx --package=server@VERSION run-it"),
        ("env A=b npx -y server", "env A=b npx -y server@VERSION"),
        ("npm exec -- server", "npm exec -- server@VERSION"),
        ("npm exec -y server", "npm exec -y server@VERSION"),
        ("bunx server", "bunx server@VERSION"),
        ("pnpm dlx server", "pnpm dlx server@VERSION"),
        ("yarn dlx server", "yarn dlx server@VERSION"),
        ("uvx server", "uvx server==VERSION"),
        ("uvx server@latest", "uvx server==VERSION"),
        ("uvx server>=1", "uvx server==VERSION"),
        ("uvx --from server run-it", "uvx --from server==VERSION run-it"),
        ("uvx --with extra server==1.0", "uvx --with extra==VERSION server==1.0"),
        ("uvx --python 3.12 server", "uvx --python 3.12 server==VERSION"),
        ("uv tool run server", "uv tool run server==VERSION"),
        ("uv --quiet tool run server", "uv --quiet tool run server==VERSION"),
        ("pipx run server", "pipx run server==VERSION"),
        ("pipx run --spec server run-it", "pipx run --spec server==VERSION run-it"),
        ("uvx git+https://example.org/server", "uvx git+https://example.org/server@COMMIT"),
        ("npx -y github:user/server", "npx -y github:user/server#COMMIT"),
        ("uv run --with extra server.py", "uv run --with extra==VERSION server.py"),
        ("timeout 30 npx -y server", "timeout 30 npx -y server@VERSION"),
        ("uvx proxy==1.0 npx -y server", "uvx proxy==1.0 npx -y server@VERSION"),
        ("sh -c 'npx -y server'", "sh -c 'npx -y server@VERSION'"),
        ("bash -lc 'cd / && exec uvx server; true'", "bash -lc 'cd / && exec uvx server==VERSION; true'"),
        ("sh -c '$(uvx server)'", "sh -c '$(uvx server==VERSION)'"),
        ("env -S 'npx -y server'", "env -S 'npx -y server@VERSION'"),
        ("docker run -i --rm -e KEY image", "docker run -i --rm -e KEY image@sha256:DIGEST"),
        ("docker run -i --rm image:1.2", "docker run -i --rm image:1.2@sha256:DIGEST"),
        ("podman run image", "podman run image@sha256:DIGEST"),
        ("go run example.org/server@latest", "go run example.org/server@vVERSION"),
        ("deno run -A npm:server", "deno run -A npm:server@VERSION"),
    ],
)
def test_what_says_no_version(line: str, fixed: str) -> None:
    command, *args = shlex.split(line)
    assert pinned_spelling(command, args) == fixed


@each_row(
    "line",
    [
        "npx -y server@1.2.3",
        "npx -y @scope/server@1.2.3-beta.1 /data",
        "npx --package=server@1.0.0 run-it",
        "npx ./server",
        "uvx server==1.2.3",
        "uvx server@1.2.3",
        "uvx server[extra]==1.2",
        "uvx --from server==1.2 run-it",
        "uvx --from server==1.2 --with extra==3.0 run-it",
        f"uvx --from git+https://example.org/server@{COMMIT} server",
        f"npx -y github:user/server#{COMMIT}",
        "sh -c 'npx -y server@1.2.3 && uvx other==2'",
        "sh -c ''",
        f"docker run -i --rm -e KEY=value image:1@sha256:{DIGEST} --flag",
        "go run example.org/server@v1.2.3",
        "go run ./server",
        "deno run -A npm:server@1.2.3",
        "deno run server.ts",
        "python server.py",
        "uv run server.py",
        "mcp-server-time",
        "node server.js npx",
        "docker ps",
        "npm start",
    ],
)
def test_what_says_its_version_or_fetches_nothing(line: str) -> None:
    command, *args = shlex.split(line)
    assert pinned_spelling(command, args) == ""


def test_the_words_alone_fetch_nothing() -> None:
    failures = [
        words for words in (["npx"], ["uvx"], ["uv", "tool", "run"], ["env"]) if pinned_spelling(words[0], words[1:])
    ]
    assert failures == []
