"""A pipe or a device where a file is expected: a sentence, and nothing waits for what never comes."""

import os

import pytest

WAYS = {
    "worker": (["run", "ODD.yaml", "go"], 3),
    "worker check": (["worker", "check", "ODD.yaml"], 3),
    "worker show": (["worker", "show", "ODD.yaml"], 3),
    "approve": (["approve", "ODD.yaml", "peek"], 3),
    "schema": (["run", "worker.yaml", "go", "--output-schema", "ODD.json"], 3),
    "attachment": (["run", "worker.yaml", "go", "--attach", "ODD.txt"], 2),
    "script": (["run", "worker.yaml", "go", "-m", "script:ODD.yaml"], 3),
    "record": (["run", "worker.yaml", "go", "--record", "ODD.jsonl"], 2),
    "replayed": (["run", "worker.yaml", "--replay", "ODD.jsonl"], 3),
    "replay": (["replay", "ODD.jsonl"], 3),
    "resumed": (["run", "worker.yaml", "-r", "ODD.jsonl"], 3),
    "session": (["sessions", "show", "./ODD.jsonl"], 3),
    "exported": (["sessions", "export", "./ODD.jsonl"], 3),
    "against": (["approve", "worker.yaml", "--against", "./ODD.jsonl"], 3),
    "tested": (["tools", "test", "./ODD.py"], 2),
    "tools.py": (["run", "odd_tools.yaml", "go"], 3),
    "tools.py, looked at": (["tools", "list", "odd_tools.yaml"], 3),
    "plugin": (["run", "odd_plugin.yaml", "go"], 3),
    "config": (["run", "worker.yaml", "go"], 3),
    "tool.yaml": (["tools", "build", "odd"], 3),
    "entrypoint": (["tools", "build", "entry"], 3),
}


@pytest.fixture(params=["pipe", "device"])
def odd(request):
    """Make a name that is no file."""

    def make(path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")

    return make


@pytest.mark.few(7)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_told_and_nothing_waits(cli, tester, odd, way: str) -> None:
    args, code = WAYS[way]
    for word in args:
        if "ODD" in word:
            odd(tester.folder / word.rpartition(":")[2])
    match way:
        case "config":
            odd(tester.home / "config.yaml")
        case "tool.yaml":
            odd(tester.home / "tools/odd/tool.yaml")
        case "entrypoint":
            odd(tester.home / "tools/entry/entry.py")
            (tester.home / "tools/entry/tool.yaml").write_text("name: entry\ndescription: d\nentrypoint: entry.py\n")
        case "tools.py" | "tools.py, looked at":
            odd(tester.folder / "odd_tools.py")
            section = "{custom: {module: ./odd_tools.py, tools: [a]}}"
            tester.write("odd_tools.yaml", f"name: w\nmodel: script:script.yaml\ntoolsets: {section}\n")
        case "plugin":
            odd(tester.folder / "odd_tools.py")
            tester.write("odd_plugin.yaml", "name: w\nmodel: script:script.yaml\nplugins: [./odd_tools.py]\n")
    done = cli(*args)
    assert done.code == code, done
    assert done.err
    assert "internal error" not in done.err
