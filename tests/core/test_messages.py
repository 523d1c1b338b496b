"""What is said between forge and a model."""

from pathlib import Path

from forge_cli.core.messages import Attachment, Message, ModelEnv, ToolSpec, Usage


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
    assert sum([Usage(1, 1), Usage(2, 2)], Usage()) == Usage(3, 3)
    assert Usage(1, 2, 3, 4).wire() == {
        "inputTokens": 1,
        "outputTokens": 2,
        "cacheReadTokens": 3,
        "cacheWriteTokens": 4,
    }


def test_a_tool_as_the_model_sees_it() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"})
    assert spec.wire() == {"name": "add", "description": "Add.", "inputSchema": {"type": "object"}}


def test_what_only_a_provider_understands_makes_no_other_message() -> None:
    assert Message("assistant", "hi", native={"thinking": "..."}) == Message("assistant", "hi")
    assert "thinking" not in repr(Message("assistant", "hi", native={"thinking": "..."}))
    assert "secret" not in repr(Attachment("a.txt", "text/plain", b"secret"))


def test_a_file_is_looked_for_in_each_folder_in_turn(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    env = ModelEnv(folders=(first, second), notify=lambda level, message: None)
    assert env.find("demo.yaml") == first / "demo.yaml"
    (second / "demo.yaml").touch()
    assert env.find("demo.yaml") == second / "demo.yaml"
    (first / "demo.yaml").touch()
    assert env.find("demo.yaml") == first / "demo.yaml"
    assert env.find(str(tmp_path / "second" / "demo.yaml")) == second / "demo.yaml"
