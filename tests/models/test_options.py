"""Options of a model in the config: keys of every provider, and of a provider from a plugin."""

import json

import pytest

from forge_cli.core.messages import Message, ModelEnv, ModelRequest
from forge_cli.errors import WorkerError
from forge_cli.models.anthropic.provider import make as make_anthropic
from forge_cli.models.openai import make as make_openai
from forge_cli.testing import Project

_REQUEST = ModelRequest("", [Message("user", "hi")], ())
WORKER = """
name: talker
model: acme:big
plugins: [./acme.py]
"""
ACME = """
from collections.abc import AsyncGenerator

from forge_cli import Config, hookimpl
from forge_cli.hooks import Delta, ModelEnv, ModelFactory, ModelRequest, TextDelta, TurnEnd


class AcmeFactory(ModelFactory):
    class Options(Config):
        region: str = "us"
        retries: int = 1


class Acme:
    context_window = None

    def __init__(self, name: str, said: object) -> None:
        self.name, self.said = f"acme:{name}", said

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield TextDelta(str(self.said))
        yield TurnEnd()

    async def aclose(self) -> None:
        pass


def make(name: str, env: ModelEnv) -> Acme:
    settings: AcmeFactory.Options = env.settings
    return Acme(name, [settings.region, settings.retries, dict(env.options)])


@hookimpl
def forge_models() -> list[ModelFactory]:
    return [AcmeFactory("acme", make)]
"""


def configured(project: Project, config: str) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("acme.py", ACME)
    project.home.mkdir()
    (project.home / "config.yaml").write_text(config)
    return project


def test_keys_of_a_provider_are_validated_and_passed(project: Project) -> None:
    configured(project, 'models: {"acme:big": {region: eu, maxTokens: 9}}')
    done = project.forge("run", "worker.yaml", "hi", "-p")
    assert (done.stdout, done.stderr) == ("['eu', 1, {'max_tokens': 9}]\n", "")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "{regoin: eu}",
            "config.yaml:1:23: models.acme:big: unknown key 'regoin'; did you mean 'region'?",
        ),
        (
            "{retries: many}",
            "config.yaml:1:32: models.acme:big.retries: must be an integer, not 'many'",
        ),
        ("{temperature: 3}", "models.acme:big.temperature: must be less than or equal to 2, not 3"),
    ],
)
def test_invalid_key_of_a_provider_has_its_place(
    project: Project, said: str, sentence: str
) -> None:
    configured(project, f'models: {{"acme:big": {said}}}')
    done = project.forge("run", "worker.yaml", "hi", "-p")
    assert done.returncode == 3
    assert sentence in done.stderr


def test_options_class_that_is_not_a_config_is_an_error_of_the_provider(project: Project) -> None:
    configured(project, "{}")
    project.write("acme.py", ACME.replace("class Options(Config)", "class Options"))
    done = project.forge("run", "worker.yaml", "hi", "-p")
    assert done.returncode == 7
    assert "the model acme:big cannot be created: AttributeError" in done.stderr


def test_factory_that_returns_no_model_is_an_error_of_the_provider(project: Project) -> None:
    configured(project, "{}")
    project.write("acme.py", ACME.replace("    return Acme(", "    Acme("))
    done = project.forge("run", "worker.yaml", "hi", "-p")
    assert done.returncode == 7
    assert (
        "the model acme:big cannot be created: make() of provider 'acme' returned None, not a model"
        in done.stderr
    )


def test_unknown_key_of_a_built_in_provider_is_an_error_in_every_command(
    project: Project,
) -> None:
    configured(project, 'models: {"openai:x": {temprature: 1}}')
    done = project.forge("run", "worker.yaml", "hi", "-p")
    assert done.returncode == 3
    assert "models.openai:x: unknown key 'temprature'; did you mean 'temperature'?" in done.stderr


def env(**options: object) -> ModelEnv:
    return ModelEnv(folders=(), notify=lambda level, message: None, options=options)


@pytest.mark.parametrize(
    ("base", "fields", "images"),
    [
        ("", {"temperature": 0.5, "max_completion_tokens": 7, "reasoning_effort": "none"}, True),
        (
            "http://127.0.0.1:9/v1",
            {"temperature": 0.5, "max_tokens": 7, "reasoning_effort": "none"},
            False,
        ),
    ],
)
def test_openai_sends_the_options(
    monkeypatch: pytest.MonkeyPatch, base: str, fields: dict[str, object], images: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", base)
    model = make_openai("tiny", env(temperature=0.5, max_tokens=7, thinking="off"))
    sent = json.loads(model._body(_REQUEST))
    assert {key: sent[key] for key in fields} == fields
    assert model._dialect.images is images


def test_anthropic_accepts_no_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789")
    with pytest.raises(WorkerError, match="does not accept a temperature"):
        make_anthropic("claude-haiku-5-5", env(temperature=0.5))
    model = make_anthropic("claude-haiku-5-5", env(thinking="low", max_tokens=9))
    sent = json.loads(model._encoder.body(_REQUEST))
    assert (sent["max_tokens"], sent["output_config"]) == (9, {"effort": "low"})
