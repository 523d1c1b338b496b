"""The fields of a tool: parsed into one form, or an error that names tool and field.

Covers forge_cli.schema.tool_fields.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from forge_cli.core.approval import Approval, Effect, Verdict
from forge_cli.core.errors import SchemaError
from forge_cli.schema.tool import Tool, tool
from forge_cli.schema.tool_fields import ManualExecution
from forge_cli.schema.toolset import Toolset

BOTH, PUSH = ManualExecution("both"), ManualExecution("manual", "Push", "Git")
READ, WRITE = frozenset({Effect.READ}), frozenset({Effect.WRITE})
PUSH_AS_OBJECT = {"mode": "manual", "label": "Push", "category": "Git"}


async def _nothing(args: dict[str, Any], context: Any) -> str:
    return "done"


def made(**options: Any) -> Tool:
    given: dict[str, Any] = {
        "name": "push",
        "description": "",
        "input_schema": {"type": "object"},
        "execute": _nothing,
    }
    return Tool(**{**given, **options})


def marked(**options: Any) -> Tool:
    @tool(**options)
    def push(branch: str = "main") -> str:
        return branch

    return Tool.from_function(push)


UNDERSTOOD: list[tuple[dict[str, Any], str, Any]] = [
    ({"manual": "manual"}, "manual", ManualExecution("manual")),
    ({"manual": "Both"}, "manual", BOTH),
    ({"manual": PUSH_AS_OBJECT}, "manual", PUSH),
    ({"manual": MappingProxyType(PUSH_AS_OBJECT)}, "manual", PUSH),
    ({"manual": {"label": "Push"}}, "manual", ManualExecution("llm", "Push")),
    ({"manual": {}}, "manual", ManualExecution()),
    ({"manual": PUSH}, "manual", PUSH),
    ({"effects": ["write"]}, "effects", WRITE),
    ({"effects": {"write"}}, "effects", WRITE),
    ({"effects": ("WRITE", Effect.WRITE)}, "effects", WRITE),
    ({"effects": "write"}, "effects", WRITE),
    ({"effects": Effect.WRITE}, "effects", WRITE),
    ({"effects": {Effect.WRITE}}, "effects", WRITE),
    ({"effects": {" write ": None}.keys()}, "effects", WRITE),
    ({"effects": []}, "effects", frozenset()),
    ({"timeout": "5"}, "timeout", 5.0),
    ({"timeout": " 2.5 "}, "timeout", 2.5),
    ({"timeout": 5}, "timeout", 5.0),
    ({"timeout": None}, "timeout", None),
    ({"needs_approval": "ask"}, "needs_approval", Approval.ASK),
    ({"needs_approval": "preApproved"}, "needs_approval", Approval.PRE_APPROVED),
    ({"needs_approval": "pre_approved"}, "needs_approval", Approval.PRE_APPROVED),
    (
        {"needs_approval": Verdict(Approval.ASK, "why")},
        "needs_approval",
        Verdict(Approval.ASK, "why"),
    ),
    ({"needs_approval": False}, "needs_approval", False),
]

OTHER_NAMES: list[tuple[dict[str, Any], str, Any]] = [
    ({"manual_execution": PUSH_AS_OBJECT}, "manual", PUSH),
    ({"manual_execution": "both"}, "manual_execution", BOTH),
    ({"manualExecution": {"mode": "both"}}, "manual", BOTH),
    ({"manual": "manual", "label": "Push", "category": "Git"}, "manual", PUSH),
    (
        {"manual": {"mode": "manual", "label": "Pull"}, "label": "Push", "category": "Git"},
        "manual",
        PUSH,
    ),
    ({"label": "Push"}, "manual", ManualExecution("llm", "Push")),
    ({"read_only": True}, "effects", READ),
    ({"readOnly": True, "effects": ["read"]}, "effects", READ),
    ({"read_only": False}, "effects", None),
    ({"needsApproval": "blocked"}, "needs_approval", Approval.BLOCKED),
]
"""Only ``@tool`` knows these."""

MODES = "must be 'llm', 'manual' or 'both', not"
WORDS = "must be True, False, 'ask', 'preApproved', 'blocked', an Approval, a Verdict or a function of args, not"
OBJECT = "must be 'llm', 'manual' or 'both', or an object with mode, label and category, not"
EFFECTS = "must be a list of effects (read, write, execute, network), not"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"manual": "always"}, f"manual {MODES} 'always'"),
    ({"manual": {"mode": "always"}}, f"manual mode {MODES} 'always'"),
    ({"manual": {"mode": None}}, f"manual mode {MODES} None"),
    (
        {"manual": {"mode": "both", "lable": "x"}},
        f"manual {OBJECT} {{'mode': 'both', 'lable': 'x'}}",
    ),
    ({"manual": True}, f"manual {OBJECT} True"),
    ({"effects": ["wrte"]}, f"effects {EFFECTS} ['wrte']"),
    ({"effects": [1]}, f"effects {EFFECTS} [1]"),
    ({"effects": 3}, f"effects {EFFECTS} 3"),
    ({"timeout": "soon"}, "timeout must be a number of seconds, not 'soon'"),
    ({"timeout": "5s"}, "timeout must be a number of seconds, not '5s'"),
    ({"timeout": [5]}, "timeout must be a number of seconds, not [5]"),
    ({"timeout": 0}, "timeout must be a finite number of seconds above 0, not 0"),
    ({"timeout": -1}, "timeout must be a finite number of seconds above 0, not -1"),
    ({"timeout": "inf"}, "timeout must be a finite number of seconds above 0, not 'inf'"),
    ({"timeout": float("nan")}, "timeout must be a finite number of seconds above 0, not nan"),
    ({"needs_approval": "maybe"}, f"needs_approval {WORDS} 'maybe'"),
    ({"needs_approval": 1}, f"needs_approval {WORDS} 1"),
    ({"needs_approval": []}, f"needs_approval {WORDS} []"),
    ({"needs_approval": lambda: True}, "needs_approval must take (args) or (args, context)"),
    ({"preview": "text"}, "preview must be a function of (args, context), not 'text'"),
    (
        {"touches": "path"},
        "touches must be a function of args that returns a PathUse for each path",
    ),
]
REFUSED_OF_OTHER_NAMES: list[tuple[dict[str, Any], str]] = [
    ({"manual_execution": ["manual"]}, f"manual {OBJECT} ['manual']"),
    ({"read_only": "no"}, "read_only must be true or false, not 'no'"),
    (
        {"read_only": True, "effects": ["write"]},
        "read_only and effects contradict each other; keep one",
    ),
    (
        {"read_only": False, "effects": ["read"]},
        "read_only and effects contradict each other; keep one",
    ),
]
ONLY_OBJECTS: list[tuple[dict[str, Any], str]] = [
    ({"description": None}, "description must be text, not None"),
    ({"execute": "run"}, "execute must be a function of (args, context), not 'run'"),
    ({"execute": None}, "execute must be a function of (args, context), not None"),
    ({"execute": lambda: 1}, "execute must take (args, context) or (args)"),
]


def test_tool_fields_accept_words() -> None:
    failures = []
    for options, field, expected in [*UNDERSTOOD, *OTHER_NAMES]:
        for make in (made, marked) if (options, field, expected) in UNDERSTOOD else (marked,):
            found = getattr(make(**options), field)
            if found != expected or type(found) is not type(expected):
                failures.append((make.__name__, options, found))
    assert failures == []


def test_invalid_tool_field_names_tool_and_field() -> None:
    failures = []
    cases = [(each, (made, marked)) for each in REFUSED]
    cases += [(each, (made,)) for each in ONLY_OBJECTS]
    cases += [(each, (marked,)) for each in REFUSED_OF_OTHER_NAMES]
    for (options, problem), makers in cases:
        for make in makers:
            try:
                failures.append((make.__name__, options, make(**options)))
            except SchemaError as error:
                if str(error) != f"push: {problem}":
                    failures.append((make.__name__, options, str(error)))
    assert failures == []


def test_field_given_under_two_names_is_an_error() -> None:
    with pytest.raises(TypeError, match="manual is given twice"):
        marked(manual="both", manual_execution="manual")


def test_copy_keeps_the_parsed_fields() -> None:
    subject = made(
        manual={"mode": "manual"}, effects=["read"], timeout="5", execute=lambda args: "x"
    )
    again = replace(subject, name="pull")
    assert (again.manual, again.effects, again.timeout) == (subject.manual, subject.effects, 5.0)
    assert again.execute is subject.execute


class Callable0:
    async def __call__(self, args: dict[str, Any], context: Any) -> str:
        return f"{args['n']} {context}"


class Methods:
    def sync(self, args: dict[str, Any], context: Any) -> str:
        return f"{args['n']} {context}"

    async def one(self, args: dict[str, Any]) -> str:
        return f"{args['n']} here"


async def _three(extra: str, args: dict[str, Any], context: Any) -> str:
    return f"{args['n']} {context}"


def test_every_form_of_execute_and_preview_can_be_called() -> None:
    async def both(args: dict[str, Any], context: Any) -> str:
        return f"{args['n']} {context}"

    shapes: dict[str, Callable[..., Any]] = {
        "async": both,
        "sync": Methods().sync,
        "async of args": Methods().one,
        "lambda of args": lambda args: f"{args['n']} here",
        "lambda that gives an awaitable": lambda args, context: both(args, context),
        "object": Callable0(),
        "partial": functools.partial(_three, "x"),
        "partial of an object": functools.partial(Callable0()),
        "any arguments": lambda *given: f"{given[0]['n']} {given[1]}",
        "a default of its own": lambda args, where="here": f"{args['n']} {where}",
        "a context that may be left out": lambda args, ctx=None: f"{args['n']} {ctx}",
    }
    failures = []
    for shape, function in shapes.items():
        subject = made(execute=function, preview=function)
        for call in (subject.execute, subject.preview):
            assert call is not None
            found = anyio.run(call, {"n": 1}, "here")
            if found != "1 here":
                failures.append((shape, found))
    assert failures == []


def test_option_may_name_a_method_or_an_approval() -> None:
    class Notes(Toolset):
        name = "notes"

        @tool(needs_approval="ask")
        def ask(self, n: int) -> int:
            return n

        @tool(needs_approval="blocked")
        def drop(self, n: int) -> int:
            return n

        @tool(needs_approval="large")
        def keep(self, n: int) -> int:
            return n

        def large(self, args: dict[str, Any]) -> bool:
            return bool(args["n"] > 1)

    asks, drops, keeps = anyio.run(Notes().tools)
    assert (asks.needs_approval, drops.needs_approval) == (Approval.ASK, Approval.BLOCKED)
    assert callable(keeps.needs_approval)

    class Lost(Toolset):
        name = "lost"

        @tool(needs_approval="nowhere")
        def keep(self, n: int) -> int:
            return n

    with pytest.raises(SchemaError) as caught:
        anyio.run(Lost().tools)
    assert (
        str(caught.value)
        == "keep: needs_approval names the method 'nowhere', which Lost does not have"
    )
