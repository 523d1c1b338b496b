"""Commands that start other commands by their words: modules, subcommands, containers, other machines.

Covers forge_cli.toolsets.shell.programs.containers, forge_cli.toolsets.shell.programs.named,
forge_cli.toolsets.shell.programs.runners, forge_cli.toolsets.shell.programs.subcommands.
"""

import time

import pytest

from forge_cli.core.approval import Approval

from .conftest import Judge

PRE, ASK, BLOCKED = Approval.PRE_APPROVED, Approval.ASK, Approval.BLOCKED

# fmt: off
NAMED = [
    ("python3", "python3 -m mypy --config-file scratch/x.ini a.py"),
    ("python3 -m mypy", "python3 -m mypy --config-file scratch/x.ini a.py"), ("python3", "python3 -m pytest -p evil"),
    ("python3", "python3 -m pytest -c scratch/x"), ("python3", "python3 -m pytest --rootdir=scratch"),
    ("python3", "python3 -m pip --python scratch/py install"),
    ("python3.12 -m pytest", "python3.12 -m pytest -p evil"), ("py -m pytest", "py -m pytest -p evil"),
    ("py", "py -3.12 -m pytest -p evil"), ("pypy3", "pypy3 -m pytest -qp evil"),
    ("python -I -X dev -m pytest", "python -I -X dev -m pytest -p evil"),
    ("python", "python -IXdev -mpytest -p evil"), ("uv run -m pytest", "uv run -m pytest -p evil"),
    ("uv", "uv run -m pytest -p evil"), ("pipx run black", "pipx run black --config x"),
    ("npx eslint", "npx eslint -c x a"), ("bunx eslint", "bunx eslint --rulesdir x"),
    ("corepack yarn", "corepack yarn eslint -c x"), ("corepack", "corepack yarn exec id"),
    ("yarn", "yarn eslint -c x"), ("pnpm", "pnpm run jest -c x"),
    ("python", "python -m coverage run -m pytest -p evil"), ("coverage", "coverage run -m pytest -p evil"),
    ("python", "python -m cProfile -m pytest -p evil"), ("python", "python -m uv run id"),
    ("python", "python -m poetry run id"), ("python", "python -m pip.__main__ --python x install"),
    ("python", "python -m pre_commit run -c x"), ("python", "python -m IPython -c id"),
    ("python3.13t", "python3.13t -c id"), ("hatch run test:pytest", "hatch run test:pytest -p evil"),
    ("poetry run python", "poetry run python -m mypy --config-file x"),
    ("uv", "uv --offline --quiet --no-cache --no-progress run id"), ("pytest", "pytest -qp evil"),
    ("pytest", "pytest @x"),
]
STARTED = [
    ("docker", "docker exec c sh -c 'curl x | sh'"), ("docker", "docker run -v /:/h alpine chroot /h sh -c id"),
    ("docker", "docker compose run c sh"), ("docker", "docker compose exec c sh"),
    ("docker", "docker --context x exec -it c id"), ("docker", "docker -H x run a id"),
    ("docker", "docker container exec c id"), ("docker", "docker create -v /:/h a id"),
    ("docker", "docker run alpine"), ("docker", "docker exec"), ("docker", "docker service create a id"),
    ("docker", "docker foo"), ("docker", "docker --config d ps"), ("docker", "docker attach c"),
    ("docker", "docker plugin install x"), ("docker", "docker compose -f x run c sh"),
    ("docker exec", "docker exec c id"), ("docker compose", "docker compose exec c id"),
    ("docker exec c ls", "docker exec c id"), ("docker exec c sh", "docker exec c sh -c id"),
    ("docker exec c", "docker exec c ls"), ("docker run --rm a", "docker run --rm a ls"),
    ("podman", "podman unshare id"), ("podman", "podman run a id"), ("podman", "podman machine ssh id"),
    ("podman", "podman container runlabel x y"), ("kubectl", "kubectl exec p -- id"),
    ("kubectl", "kubectl -n ns exec p -- id"), ("kubectl", "kubectl --context a --namespace b -v 3 exec p -- id"),
    ("kubectl", "kubectl run x --image=y -- id"), ("kubectl", "kubectl foo"), ("kubectl", "kubectl debug x"),
    ("kubectl", "kubectl -n a --context b edit x"), ("nerdctl", "nerdctl exec c id"), ("lxc", "lxc exec c -- id"),
    ("incus", "incus exec c -- id"), ("lxc", "lxc shell c"), ("multipass", "multipass exec vm -- id"),
    ("multipass", "multipass shell vm"), ("vagrant", "vagrant ssh -c id"), ("vagrant", "vagrant ssh"),
    ("adb", "adb shell id"), ("adb", "adb -s x shell id"), ("adb", "adb exec-out id"), ("gh", "gh alias set x '!id'"),
    ("gh", "gh extension exec x"), ("gh", "gh ext exec x"), ("gh", "gh codespace ssh -- id"),
    ("gh", "gh cs ssh -- id"), ("gh", "gh foo"), ("gh", "gh -R a/b foo"), ("gh", "gh extension install x"),
    ("gh", "gh config set pager id"), ("gh", "gh repo clone a/b -- -c core.sshCommand=id"), ("cargo", "cargo foo"),
    ("cargo", "cargo +nightly foo"), ("cargo", "cargo --offline foo build"), ("helm", "helm foo"),
    ("brew", "brew foo"), ("ssh", "ssh h id"), ("mosh", "mosh h id"), ("nsenter", "nsenter -t 1 id"),
    ("chroot", "chroot / id"), ("machinectl", "machinectl shell x id"), ("distrobox", "distrobox enter x -- id"),
    ("toolbox", "toolbox run id"), ("limactl", "limactl shell x id"), ("wsl", "wsl id"), ("wsl.exe", "wsl.exe id"),
    ("gcloud", "gcloud compute ssh x --command=id"), ("gcloud", "gcloud --project p compute ssh x"),
    ("gcloud", "gcloud beta compute ssh x"), ("aws", "aws ssm start-session --target x"),
    ("aws", "aws --profile x ssm send-command"), ("fly", "fly ssh console -C id"), ("heroku", "heroku run id"),
    ("heroku", "heroku run -a x id"), ("oc", "oc exec p -- id"), ("oc", "oc rsh p id"),
    ("buildah", "buildah run c id"), ("systemd-run", "systemd-run id"), ("crictl", "crictl exec c id"),
    ("ctr", "ctr -n k tasks exec --exec-id x c id"), ("ctr", "ctr run i c id"), ("runc", "runc exec c id"),
    ("nomad", "nomad alloc exec x id"), ("ip", "ip netns exec x id"), ("ip", "ip net e x id"),
    ("minikube", "minikube ssh id"), ("k3s", "k3s kubectl exec p -- id"),
    ("docker-compose", "docker-compose exec c id"), ("poetry", "poetry shell"), ("npm", "npm exec id"),
    ("npm", "npm ex id"), ("npm", "npm config set script-shell ./x"), ("xargs", "xargs docker"),
    ("xargs docker", "xargs docker"), ("adb shell ls", "adb shell ls ';id'"),
    ("gh codespace ssh -- ls", "gh codespace ssh -- ls ';id'"), ("kubectl exec p -- ls", "kubectl exec p -- id"),
]
COVERED = [
    ("docker exec c ls", "docker exec c ls -la"), ("docker exec -it c ls", "docker exec -it c ls"),
    ("docker run --rm -v a:/b alpine ls", "docker run --rm -v a:/b alpine ls x"),
    ("kubectl exec p -- ls", "kubectl exec p -- ls -l"),
    ("kubectl -n ns exec p -c x -- ls", "kubectl -n ns exec p -c x -- ls"), ("lxc exec c -- ls", "lxc exec c -- ls"),
    ("adb shell ls", "adb shell ls /sdcard"), ("cargo nextest", "cargo nextest run"), ("gh dash", "gh dash"),
    ("kubectl ns", "kubectl ns foo"), ("uv run -m pytest", "uv run -m pytest -q"),
    ("uv run pytest", "uv run pytest -x"), ("npx eslint", "npx eslint src"), ("pipx run black", "pipx run black src"),
    ("corepack yarn", "corepack yarn install"), ("hatch run test:pytest", "hatch run test:pytest -q"),
    ("docker compose exec -T web ls", "docker compose exec -T web ls"), ("docker", "docker ps -a"),
    ("docker", "docker compose -f x.yml ps"), ("docker", "docker compose -p a -f x logs -f"), ("docker", "docker"),
    ("docker", "docker logs -f c"), ("docker", "docker images"), ("docker", "docker network create x"),
    ("docker", "docker volume create x"), ("docker", "docker --context x ps"), ("docker", "docker stop run"),
    ("podman", "podman ps"), ("kubectl", "kubectl get pods -n x"), ("kubectl", "kubectl -n x get pods"),
    ("kubectl", "kubectl --context a -n b logs -f p"), ("kubectl", "kubectl get po --output wide"),
    ("kubectl", "kubectl config view"), ("helm", "helm list -n x"), ("gh", "gh pr list"),
    ("gh", "gh -R a/b pr view 3"), ("gh", "gh run list"), ("gh", "gh pr checkout 3"), ("gh", "gh repo clone a/b"),
    ("gh", "gh repo clone a/b -- --depth 1"), ("gh", "gh api repos/a/b"), ("gh", "gh extension list"),
    ("gh", "gh alias list"), ("cargo", "cargo build --release"), ("cargo", "cargo +nightly test"),
    ("cargo", "cargo --offline check"), ("cargo", "cargo run"), ("cargo", "cargo clippy"), ("cargo", "cargo fmt"),
    ("npm", "npm run build"), ("npm", "npm test"), ("npm", "npm install"), ("npm", "npm ci"),
    ("npm", "npm run test -- -v"), ("yarn", "yarn build"), ("yarn", "yarn test -v"), ("yarn", "yarn install"),
    ("pnpm", "pnpm install"), ("bun", "bun install"), ("uv", "uv sync"), ("uv", "uv pip install x"),
    ("poetry", "poetry install"), ("pyenv", "pyenv versions"), ("brew", "brew install x"), ("conda", "conda list"),
    ("vagrant", "vagrant up"), ("adb", "adb devices"), ("heroku", "heroku logs"), ("fly", "fly deploy"),
    ("gcloud", "gcloud compute instances list"), ("aws", "aws s3 ls"), ("az", "az vm list"), ("lxc", "lxc list"),
    ("multipass", "multipass list"), ("python", "python -m pytest -x"), ("python", "python -m pytest -q tests"),
    ("python3", "python3 -m mypy src"), ("python3", "python3 -m pip install x"), ("python", "python -m pip list"),
    ("python", "python -m http.server --directory=./x"), ("python", "python -m mymod --config=./x"),
    ("python", "python -m coverage run -m pytest"), ("coverage", "coverage run -m pytest -q"),
    ("python", "python -m venv .venv"), ("python", "python -X dev -m pytest"), ("py", "py -3 -m pytest"),
    ("ip", "ip addr"), ("ip", "ip route get 1.1.1.1"), (":", ": x"), ("go", "go build ./..."),
    ("go", "go test ./..."), ("openssl", "openssl version"), ("corepack", "corepack enable"),
    ("flatpak", "flatpak list"), ("tailscale", "tailscale status"),
]
BY_A_FILE = [
    ("docker compose up", "docker compose up -d"), ("docker compose run", "docker compose -f x.yml up"),
    ("docker compose down", "docker compose down"), ("docker compose build", "docker compose build"),
    ("docker compose cp", "docker compose cp c:/x /etc/x"), ("docker build", "docker build -t x ."),
    ("docker image build", "docker image build ."), ("docker buildx bake", "docker buildx bake"),
    ("docker builder build", "docker builder build ."), ("docker stack deploy", "docker stack deploy -c x y"),
    ("docker service update", "docker service update --image x y"), ("docker cp", "docker cp c:/x /etc/x"),
    ("docker container cp", "docker container cp c:/x /etc/x"), ("docker load", "docker load -i x"),
    ("docker import", "docker import x"), ("docker save", "docker save x"), ("docker export", "docker export c"),
    ("docker context use", "docker context use x"), ("docker start", "docker start -ai c"),
    ("docker foo", "docker foo"), ("docker swarm", "docker swarm join x"), ("docker --foo", "docker --foo ps"),
    ("podman kube", "podman kube play x.yaml"), ("podman play", "podman play kube x.yaml"),
    ("podman build", "podman build ."), ("podman cp", "podman cp c:/x /etc/x"),
    ("podman push", "podman push x dir:/etc/x"), ("podman system service", "podman system service"),
    ("podman healthcheck", "podman healthcheck run c"), ("podman foo", "podman foo"),
    ("nerdctl build", "nerdctl build ."), ("nerdctl cp", "nerdctl cp c:/x /etc/x"),
    ("nerdctl compose up", "nerdctl compose up"), ("docker-compose up", "docker-compose up"),
    ("podman-compose up", "podman-compose up"), ("kubectl apply", "kubectl apply -f x.yaml"),
    ("kubectl create", "kubectl create deployment x --image=y"), ("kubectl replace", "kubectl replace -f x"),
    ("kubectl patch", "kubectl patch po x -p y"), ("kubectl set", "kubectl set image deploy/x c=y"),
    ("kubectl cp", "kubectl cp p:/x /etc/x"), ("kubectl auth reconcile", "kubectl auth reconcile -f x"),
    ("kubectl config use-context", "kubectl config use-context x"), ("oc apply", "oc apply -f x"),
    ("oc new-app", "oc new-app x"), ("oc rsync", "oc rsync p:/x /etc"), ("helm install", "helm install x ./y"),
    ("helm upgrade", "helm upgrade x ./y"), ("helm pull", "helm pull x"), ("helm repo add", "helm repo add x y"),
    ("helm package", "helm package ."), ("buildah bud", "buildah bud ."), ("skopeo copy", "skopeo copy a dir:/etc"),
]
"""Rules that spell a subcommand, and lines that no rule covers which only names the program, or a part of the path."""
WRITTEN = [
    ("docker build", "docker build -o /etc ."), ("docker save", "docker save --output=/etc/x y"),
    ("docker", "docker compose config -o x"), ("podman", "podman ps --conmon ./x"), ("podman", "podman ps --root x"),
    ("podman", "podman --hooks-dir x ps"), ("nerdctl", "nerdctl ps --cni-path=x"), ("kubectl", "kubectl diff -k x"),
    ("kubectl", "kubectl cluster-info dump --output-directory=/etc"), ("helm", "helm template x --output-dir y"),
    ("kubectl", "kubectl get po --profile-output /etc/x"), ("docker", "docker --log-level ps compose up"),
    ("kubectl", "kubectl -n get apply -f x"), ("kubectl", "kubectl --foo get apply -f x"),
    ("uv", "uv r* id"), ("gh", "gh al* set x y"), ("nerdctl", "nerdctl cp c:/x *"),
]
LOOKING = [
    "docker compose ps", "docker container ls", "docker image ls", "docker system df", "docker inspect c",
    "docker -c x ps", "docker -cx ps", "docker --debug ps", "docker buildx ls", "docker rm -f c", "docker pull x",
    "docker kill run", "docker --version", "docker top c", "docker context ls", "podman pod ps", "podman images",
    "podman --log-level info ps", "podman-remote ps", "nerdctl -n x ps", "docker-compose -f x ps",
    "podman-compose logs", "kubectl -ndev get po", "kubectl --namespace=dev get po -A", "kubectl rollout status x",
    "kubectl describe po x", "kubectl diff -f x", "kubectl auth can-i get po", "kubectl delete po x",
    "kubectl top nodes", "oc whoami", "oc get routes", "oc -n x status", "helm status x", "helm get values x",
    "helm -n x ls", "helm template x", "helm repo list", "buildah images", "skopeo inspect docker://x",
]
PUSHING = [
    "git submodule foreach git push", "git submodule foreach --recursive git push",
    "git submodule foreach -q git push", "git submodule --quiet foreach git push",
    "git submodule --quiet foreach --recursive 'git push'", "git -C x submodule -q foreach --recursive -- git push",
    "git bisect run git push", "git -C x bisect run git push", "git rebase --exec 'git push' main",
    "git rebase -i -x 'git push' main", "git rebase -ix'git push'", "git for-each-repo --config=x push",
    "git for-each-repo --config x push", "docker --context x exec -it c git push",
    "docker --context run exec -it c git push", "docker exec -u root -e A=1 -w /x c git push",
    "docker compose -f x exec -T c git push", "docker run --rm -it --entrypoint git alpine push",
    "docker run --entrypoint=git -v a:b alpine push", "kubectl -n ns exec p -c x -- git push",
    "kubectl -n run exec p git push", "kubectl exec -it p -- sh -c 'git push'", "vagrant ssh -c 'git push'",
    "vagrant ssh box --command 'git push'", "adb -s x shell 'git push'", "adb shell git push",
    "fly ssh console -C 'git push'", "gcloud compute ssh x --command='git push'", "multipass exec vm -- git push",
    "limactl shell vm git push", "wsl -e git push", "heroku run -a x git push", "gh codespace ssh -- git push",
    "ctr -n k tasks exec --exec-id x c git push", "oc -n x rsh p git push", "ip -6 netns exec x git push",
    "uv --offline run git push", "npm exec -- git push", "corepack npx git push", "python -m uv run git push",
    "python -I -X dev -m poetry run git push", "podman unshare git push", "lxc exec c -- git push",
    "toolbox run -c x git push", "distrobox enter x -- git push", "buildah run c git push",
    "nomad alloc exec -i x git push",
]
# fmt: on


@pytest.mark.parametrize(("pattern", "line"), NAMED)
def test_a_tool_is_judged_by_its_own_options_however_it_is_named(pattern: str, line: str, judge: Judge) -> None:
    assert judge(line, allow=[pattern]).approval is ASK


@pytest.mark.parametrize(("pattern", "line"), STARTED)
def test_what_a_subcommand_starts_asks_unless_the_rule_reaches_it(pattern: str, line: str, judge: Judge) -> None:
    assert judge(line, allow=[pattern]).approval is ASK
    assert judge(line, allow=[pattern], default=BLOCKED).approval is BLOCKED


@pytest.mark.parametrize(("pattern", "line"), COVERED)
def test_what_starts_nothing_else_or_is_spelled_by_the_rule_is_covered(pattern: str, line: str, judge: Judge) -> None:
    verdict = judge(line, allow=[pattern])
    assert (verdict.approval, [part.why for part in verdict.parts]) == (PRE, [None])


@pytest.mark.parametrize(("pattern", "line"), BY_A_FILE)
def test_what_a_file_starts_and_what_writes_files_asks_unless_the_rule_spells_it(
    pattern: str, line: str, judge: Judge
) -> None:
    tokens = pattern.split()
    for reach in range(1, len(tokens)):
        wide = " ".join(tokens[:reach])
        assert judge(line, allow=[wide]).approval is ASK
        assert judge(line, allow=[wide], default=BLOCKED).approval is BLOCKED
    spelled = line.split()[: len(tokens)] == tokens
    assert judge(line, allow=[pattern]).approval is (PRE if spelled else ASK)


@pytest.mark.parametrize(("pattern", "line"), WRITTEN)
def test_options_of_containers_and_clusters_start_and_write_nothing_unasked(
    pattern: str, line: str, judge: Judge
) -> None:
    assert judge(line, allow=[pattern]).approval is ASK


@pytest.mark.parametrize("line", LOOKING)
def test_looking_at_containers_and_clusters_needs_no_more_than_the_name_of_the_program(line: str, judge: Judge) -> None:
    assert judge(line, allow=[line.split()[0]]).approval is PRE


@pytest.mark.parametrize("line", PUSHING)
def test_options_between_the_parts_of_a_wrapper_hide_nothing_that_is_blocked(line: str, judge: Judge) -> None:
    assert judge(line, block=["git push"]).approval is BLOCKED


@pytest.mark.parametrize("line", ["python -m pip install x", "python3 -I -m pip install x", "py -3 -mpip install x"])
def test_a_module_is_blocked_as_the_program_that_it_is(line: str, judge: Judge) -> None:
    assert judge(line, block=["pip install"]).approval is BLOCKED


@pytest.mark.parametrize("line", ["git submodule status", "docker run alpine echo git push", "docker logs git"])
def test_what_only_looks_like_a_wrapper_is_not_blocked(line: str, judge: Judge) -> None:
    assert judge(line, block=["git push"]).approval is ASK


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("docker exec c ls -l", "docker exec c ls"),
        ("kubectl -n x exec p -- ls", "kubectl -n x exec p -- ls"),
        ("cargo nextest run", "cargo nextest"),
        ("docker exec c sh -c id", None),
        ("docker compose -f x.yml up -d", "docker compose -f x.yml up"),
        ("kubectl -n x apply -f y", "kubectl -n x apply"),
        ("docker build -o x .", None),
    ],
)
def test_the_rule_that_is_suggested_reaches_the_command_inside(line: str, pattern: str | None, judge: Judge) -> None:
    assert judge(line).suggestion == pattern


@pytest.mark.parametrize("words", ["-a compose", "--context run", "-x", "exec", "run --entrypoint x"])
def test_many_options_before_a_subcommand_ask_at_once(words: str, judge: Judge) -> None:
    line = f"docker {f'{words} ' * 3000}"
    began = time.process_time()
    assert judge(f"{line} exec c id", allow=["docker"], block=["git push"]).approval is ASK
    assert judge(f"python {'-m coverage run ' * 3000}", allow=["python"]).approval is ASK
    assert time.process_time() - began < 5
