"""Child workers know their parent and a way to make a runtime, and nothing else of the runtime above them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forge_cli import EventBus, ToolError, WorkerResult, load_worker
from forge_cli.core.context import Delegation
from forge_cli.core.errors import ExitCode, WorkerError
from forge_cli.core.events import Event, WorkerUpdate
from forge_cli.embedding import InterruptSignal, Limits
from forge_cli.engine.runtime import children as module
from forge_cli.engine.runtime.children import Children, ChildSpec
from forge_cli.engine.runtime.delegation import Parent
from forge_cli.engine.runtime.open_worker import open_worker
from forge_cli.engine.runtime.runtime_spec import RuntimeSpec
from forge_cli.events import Attachment, Message, OnAsk, ToolCall, Usage
from forge_cli.record.resume import Past, PastChild
from forge_cli.testing import Project, scripted_model

pytestmark = pytest.mark.anyio

CALL = ToolCall("c1", "helper", {})
TASK = Delegation(worker=Path("helper.yaml"), input="look")


class Stand:
    """Stands for the runtimes of children, as far as children ask for them."""

    def __init__(self, status: Any = "completed", error: Exception | None = None) -> None:
        self.status, self.error = status, error
        self.made: list[ChildSpec] = []
        self.given: list[tuple[str, Sequence[Attachment]]] = []

    @asynccontextmanager
    async def make(self, child: ChildSpec) -> AsyncIterator["Stand"]:
        self.made.append(child)
        if self.error:
            raise self.error
        yield self

    async def run(self, task: str, attachments: Sequence[Attachment] = ()) -> WorkerResult:
        self.given.append((task, attachments))
        return WorkerResult(
            status=self.status,
            exit_code=ExitCode.DONE,
            response=f"did: {task}",
            session_id="s1",
            worker="helper",
            model="m",
            turns=2,
            usage=Usage(3, 4),
        )


@pytest.fixture
async def parent(project: Project) -> AsyncIterator[Parent]:
    worker = load_worker(project.write("boss.yaml", "name: boss\n"))
    project.write("helper.yaml", "name: helper\n")
    spec = RuntimeSpec(
        worker=worker,
        model=scripted_model(),
        approval_mode=None,
        approval_callback=None,
        on_event=None,
        interrupt=InterruptSignal(),
        depth=0,
        bus=EventBus(),
        workspace=project.folder,
        on_ask=OnAsk.DENY,
        limits=Limits(),
        output_schema=None,
        resume=None,
        session_id="s1",
    )
    async with AsyncExitStack() as stack:
        opened = await open_worker(spec, stack, lambda level, message: None, Children(Stand().make, None).delegate)
        yield opened.as_parent(opened.new_budget())


def told(text: str) -> Message:
    return Message("user", text)


def children_of(parent: Parent, stand: Stand, past: Past | None = None) -> Children:
    children = Children(stand.make, past)
    children.start_task(lambda: parent)
    return children


async def test_a_child_is_made_of_its_worker_and_its_parent(parent: Parent) -> None:
    events: list[Event] = []
    parent.spec.bus.subscribe(events.append)
    stand = Stand()
    children = children_of(parent, stand)
    assert await children.delegate(CALL, replace(TASK, instructions="Be quick.")) == (
        "did: look\n\nFurther instructions for this task:\nBe quick."
    )
    (child,) = stand.made
    assert (child.worker.name, child.parent, child.past, child.replay) == ("helper", parent, None, None)
    assert child.bus.path == ("boss", "helper")
    assert [result.worker for result in children.results] == ["helper"]
    assert [event for event in events if isinstance(event, WorkerUpdate)] == [
        WorkerUpdate("started", "boss", "c1"),
        WorkerUpdate("completed", "boss", "c1", turns=2, usage=Usage(3, 4)),
    ]


async def test_all_children_of_a_task_have_one_parent(parent: Parent) -> None:
    made: list[Parent] = []

    def make() -> Parent:
        made.append(replace(parent))
        return made[-1]

    stand = Stand()
    children = Children(stand.make, None)
    children.start_task(make)
    assert not made
    await children.delegate(CALL, TASK)
    await children.delegate(CALL, TASK)
    assert [child.parent for child in stand.made] == [made[0], made[0]]
    children.start_task(make)
    await children.delegate(CALL, TASK)
    assert [child.parent is each for child, each in zip(stand.made[1:], made, strict=True)] == [True, True]


async def test_the_next_task_starts_without_results(parent: Parent) -> None:
    children = children_of(parent, Stand())
    await children.delegate(CALL, TASK)
    children.start_task(lambda: parent)
    assert children.results == []


async def test_a_child_that_cannot_start_has_failed_in_the_parent_s_session(parent: Parent) -> None:
    children = children_of(parent, Stand(error=WorkerError(None, "no model is named")))
    with pytest.raises(ToolError, match="the worker 'helper' ended with failed: no model is named"):
        await children.delegate(CALL, TASK)
    assert [(result.status, result.session_id) for result in children.results] == [("failed", "s1")]


async def test_the_child_is_stopped_with_its_parent(parent: Parent) -> None:
    stand = Stand()
    parent.spec.interrupt.interrupt("enough")
    await children_of(parent, stand).delegate(CALL, TASK)
    assert stand.made[0].interrupt.reason == "enough"


async def test_a_worker_that_cannot_be_read_is_a_sentence_for_the_model(parent: Parent) -> None:
    with pytest.raises(ToolError, match=r"nowhere\.yaml"):
        await children_of(parent, Stand()).delegate(CALL, Delegation(worker=Path("nowhere.yaml"), input="look"))


async def test_a_child_that_finished_before_the_session_was_left_is_not_started_again(parent: Parent) -> None:
    done = PastChild("task_1", "helper", "c1", Past(messages=(told("look"),)), answer="done already")
    stand = Stand()
    children = children_of(parent, stand, Past(children={"c1": (done,)}))
    assert await children.delegate(CALL, TASK) == "done already"
    assert stand.made == []
    assert await children.delegate(CALL, TASK) == "did: look"


async def test_a_child_that_was_left_is_resumed_without_a_new_task(parent: Parent) -> None:
    past = Past(messages=(told("look"),), calls=(ToolCall("c2", "write", {}),))
    stand = Stand()
    children = children_of(parent, stand, Past(children={"c1": (PastChild("task_1", "helper", "c1", past),)}))
    await children.delegate(CALL, TASK)
    assert (stand.made[0].past, stand.given) == (past, [("", ())])
    assert stand.made[0].bus.delegation == "task_1"


def test_nothing_that_a_runtime_is_made_of_imports_the_runtime() -> None:
    """Not even for its types; ``options`` makes one of what a person asked."""
    modules = Path(module.__file__).parent.glob("*.py")
    assert [path.name for path in modules if "runtime.runtime import" in path.read_text()] == ["options.py"]
