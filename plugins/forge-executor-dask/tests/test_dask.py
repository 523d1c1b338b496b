"""Items of a batch on a real cluster of processes."""

import json
import multiprocessing
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from distributed import Queue
from distributed.comm import connect
from distributed.security import Security
from forge_executor_dask import executor, forge_executors

from forge_cli.errors import ModelError
from forge_cli.testing import Project, check_executor

from .conftest import Sorter, running_cluster

CONTRACT_SESSIONS = 9
"""Sessions of the items of ``check_executor`` whose worker can be opened."""


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"{what} never came"
        time.sleep(0.02)


@pytest.mark.anyio
async def test_dask_executor_keeps_the_contract(tmp_path: Path, cluster: str) -> None:
    project = Project(tmp_path / "project")
    project.folder.mkdir()
    await check_executor(forge_executors()[0], project, cluster, timeout=100)
    assert len(list((project.home / "sessions").glob("contract-*.jsonl"))) == CONTRACT_SESSIONS


@pytest.mark.long
@pytest.mark.anyio
async def test_slow_scheduler_still_creates_the_queue(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Queue._start

    async def late(self: Queue) -> Queue:
        await anyio.sleep(0.2)
        return await start(self)

    monkeypatch.setattr(Queue, "_start", late)
    project = Project(tmp_path / "project")
    project.folder.mkdir()
    await check_executor(forge_executors()[0], project, cluster, timeout=100)
    assert len(list((project.home / "sessions").glob("contract-*.jsonl"))) == CONTRACT_SESSIONS


@pytest.mark.long
def test_calls_of_a_lost_machine_are_not_repeated(sorter: Sorter) -> None:
    """Three items wait for the model on one machine, one is in the middle of a call, when that machine dies."""
    sorter.items({f"i{index}": "note hang pay" for index in range(6)} | {"l": "note linger"})
    forge = sorter.start("-y", "--concurrency", "7", "--retries", "0")
    try:
        wait_for(lambda: len(list(sorter.folder.glob("hangs-*"))) == 6, "an item that hangs")
        wait_for((sorter.folder / "pid-l").exists, "the call that lingers")
        wait_for(lambda: len(sorter.effects("notes.txt")) == 7, "the notes")
        os.kill(int((sorter.folder / "pid-l").read_text()), signal.SIGKILL)
        sorter.project.write("released", "")
        _, err = forge.communicate(timeout=90)
    finally:
        forge.kill()
    assert forge.returncode == 0, err
    assert set(sorter.statuses().values()) == {"completed"}
    for name in ("notes.txt", "paid.txt", "lingers.txt"):
        assert max(Counter(sorter.effects(name)).values()) == 1, name
    assert len(sorter.effects("paid.txt")) == 6
    told = sorter.results()["l"]["response"]
    assert ("may have run" in told, "not repeated" in told) == (True, True)
    machines = Counter(path.name.split("-")[0] for path in (sorter.folder / "seen").iterdir())
    assert machines["l"] == 2  # another machine took it up
    kept = {path.stem for path in (sorter.project.home / "sessions").glob("*.jsonl")}
    assert kept == {result["sessionId"] for result in sorter.results().values()}
    assert sorter.project.forge("sessions", "verify").returncode == 0


@pytest.mark.long
def test_parked_request_is_answered_on_the_local_machine(sorter: Sorter) -> None:
    sorter.items({"a": "note pay"})
    assert sorter.batch("--on-ask", "park").returncode == 10
    (row,) = json.loads(sorter.project.forge("approvals", "list", "--json").stdout)
    assert (
        sorter.project.forge(
            "approvals", "answer", row["session"], row["request"], "yes"
        ).returncode
        == 0
    )
    assert sorter.batch("--on-ask", "park").returncode == 0
    assert (sorter.effects("notes.txt"), sorter.effects("paid.txt")) == (["a"], ["a"])


@pytest.mark.long
def test_budget_is_shared_by_all_machines(sorter: Sorter) -> None:
    sorter.items({f"i{index}": "note" for index in range(12)})
    done = sorter.batch("--max-tokens", "60", "--concurrency", "2")
    assert done.returncode == 5, done.stderr
    assert 1 <= list(sorter.statuses().values()).count("completed") < 12


@pytest.mark.long
def test_missing_executable_is_reported_before_the_first_item(sorter: Sorter) -> None:
    sorter.items({"a": ""})
    tool = sorter.project.home / "tools" / "hello"
    tool.mkdir(parents=True)
    (tool / "tool.yaml").write_text("name: hello\ndescription: Greets.\nentrypoint: hello.sh\n")
    (tool / "hello.sh").write_text("echo hello\n")
    sorter.project.write("worker.yaml", sorter.project.read("worker.yaml") + "  executables: {}\n")
    done = sorter.batch()
    assert (done.returncode, "the executable 'hello' is missing" in done.stderr) == (3, True)
    assert not (sorter.folder / "seen").exists()


def install(
    folder: Path, name: str, version: str, *, entry_points: str = "", **modules: str
) -> str:
    """A distribution in a folder for PYTHONPATH."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return str(folder)


@pytest.mark.long
def test_other_forge_version_on_a_machine_is_reported_before_the_first_item(
    sorter: Sorter, tmp_path: Path
) -> None:
    sorter.items({"a": ""})
    site = install(tmp_path / "site", "forge-workers", "9.8.7")
    with running_cluster(1, PYTHONPATH=site) as sorter.cluster:
        done = sorter.batch()
    assert (done.returncode, "has forge-workers 9.8.7" in done.stderr) == (3, True), done.stderr
    assert "install forge-workers==" in done.stderr
    assert not (sorter.folder / "seen").exists()
    assert not (sorter.folder / "items.results.jsonl").exists()


@pytest.mark.long
def test_other_plugin_version_is_reported_before_the_first_item(
    sorter: Sorter, tmp_path: Path
) -> None:
    sorter.items({"a": ""})
    hooks = "from forge_cli import Toolset, hookimpl\n\nclass Tea(Toolset):\n    name = 'tea'\n\n"
    module = hooks + "@hookimpl\ndef forge_toolsets():\n    return [Tea]\n"
    here, there = (
        install(
            tmp_path / place,
            "forge-tools-tea",
            version,
            entry_points="[forge]\ntea = tea_tools\n",
            tea_tools=module,
        )
        for place, version in (("here", "1.0"), ("there", "2.0"))
    )
    sorter.project.write("worker.yaml", sorter.project.read("worker.yaml") + "  tea: {}\n")
    with running_cluster(1, PYTHONPATH=there) as sorter.cluster:
        done = sorter.batch(env={"PYTHONPATH": here})
    assert (done.returncode, "forge-tools-tea is 2.0 instead of 1.0" in done.stderr) == (3, True), (
        done.stderr
    )
    assert not (sorter.folder / "seen").exists()


@pytest.mark.long
def test_keys_are_never_sent(sorter: Sorter) -> None:
    sorter.items({"a": ""})
    secret = "a-key-that-nobody-may-see"
    sorter.project.write("beside.py", sorter.project.read("beside.py") + f"KEY = '{secret}'\n")
    done = sorter.batch(env={"MY_API_KEY": secret})
    assert (done.returncode, "beside.py:1:1: this file contains a key" in done.stderr) == (3, True)
    assert secret not in done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("{nope", "Expecting property name"),
        ("[]", "not a file that a scheduler wrote"),
        ('{"id": 1}', "not a file that a scheduler wrote"),
        ("silent", "no answer for 1 s"),
    ],
)
async def test_unresponsive_scheduler_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, why: str
) -> None:
    monkeypatch.setattr(executor, "ANSWER_TIMEOUT", 0.5)
    file = tmp_path / "scheduler.json"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if content == "silent":
            content = json.dumps({"address": f"tcp://127.0.0.1:{silent.getsockname()[1]}"})
        if content is not None:
            file.write_text(content)
        with anyio.fail_after(60), pytest.raises(ModelError, match=re.escape(why)):
            async with AsyncExitStack() as stack:
                await executor._connect(str(file), 1, stack)


@pytest.mark.long
def test_unresponsive_cluster_is_one_message(sorter: Sorter) -> None:
    sorter.items({"a": ""})
    sorter.cluster = "tcp://127.0.0.1:9"
    done = sorter.batch(env={"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"})
    assert (done.returncode, "the cluster tcp://127.0.0.1:9 does not answer" in done.stderr) == (
        7,
        True,
    )
    told = [line for line in done.stderr.splitlines() if "waiting for the executor" not in line]
    assert len(told) <= 3


@pytest.mark.long
def test_local_cluster_ends_on_ctrl_c(sorter: Sorter) -> None:
    sorter.items({"a": "note", "b": "note hang"})
    sorter.cluster = ""
    forge = sorter.start("--concurrency", "2")
    try:
        wait_for((sorter.folder / "hangs-b").exists, "the item that hangs")
        os.killpg(
            forge.pid, signal.SIGINT
        )  # as a terminal does: every process of the group gets it
        _, err = forge.communicate(timeout=60)
    finally:
        forge.kill()
    assert (forge.returncode, sorter.statuses()["b"]) == (130, "interrupted"), err
    assert "Traceback" not in err
    assert "the same command resumes the rest" in err


@pytest.mark.anyio
async def test_local_cluster_interrupted_at_start_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(30,))

    class Starting(AsyncExitStack):
        async def __aenter__(self) -> Any:
            process.start()
            await anyio.sleep_forever()

    monkeypatch.setattr(executor, "LocalCluster", lambda **options: Starting())
    async with AsyncExitStack() as stack:
        with anyio.move_on_after(0):
            await executor._start_cluster(2, Security(), stack)
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.anyio
async def test_local_cluster_refuses_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither without a key, nor with another one; its certificate is no secret."""
    key, other = Security.temporary(), Security.temporary()
    certificate = key.tls_scheduler_cert
    monkeypatch.setattr(executor.Security, "temporary", lambda: key)
    bare = ssl.create_default_context(cadata=certificate)
    bare.check_hostname = False
    mixed = ssl.create_default_context(cadata=certificate)
    mixed.check_hostname = False
    file = tmp_path / "other.pem"
    file.write_text(f"{other.tls_client_key}{other.tls_client_cert}")
    mixed.load_cert_chain(file)
    strangers: dict[str, tuple[str, dict[str, Any]]] = {
        "without TLS": ("tcp", {}),
        "without a certificate": ("tls", {"ssl_context": bare}),
        "with another key": ("tls", other.get_connection_args("client")),
        "with another key, and its certificate": ("tls", {"ssl_context": mixed}),
    }
    refused = []

    async def knock(name: str, address: str, how: dict[str, Any]) -> None:
        try:
            (await connect(address, timeout=2, **how)).abort()
        except OSError:
            refused.append(name)

    async with AsyncExitStack() as stack:
        client = await executor._connect("", 1, stack)
        ((worker, machine),) = client.scheduler_info()["workers"].items()
        addresses = {
            "scheduler": client.scheduler.address,
            "worker": worker,
            "nanny": machine["nanny"],
        }
        assert [at for at in addresses.values() if not at.startswith("tls://127.0.0.1:")] == []
        async with anyio.create_task_group() as group:
            for place, address in addresses.items():
                group.start_soon(
                    knock, f"{place}: its own", address, key.get_connection_args("client")
                )
                for name, (protocol, how) in strangers.items():
                    group.start_soon(
                        knock, f"{place}: {name}", address.replace("tls", protocol), how
                    )
    assert sorted(refused) == sorted(
        f"{place}: {name}" for place in addresses for name in strangers
    )


@pytest.mark.long
def test_dask_is_imported_only_when_used(sorter: Sorter) -> None:
    sorter.items({"a": ""})
    imported = "bool({'dask', 'distributed'} & {*sys.modules})"
    code = f"import sys; from forge_cli.__main__ import main; main(); sys.exit({imported})"
    argv = [sys.executable, "-c", code, "batch", "worker.yaml", "items.jsonl"]
    env = {**os.environ, "FORGE_HOME": str(sorter.project.home)}
    done = subprocess.run(
        argv, cwd=sorter.folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, sorter.statuses()) == (0, {"a": "completed"}), done.stderr
