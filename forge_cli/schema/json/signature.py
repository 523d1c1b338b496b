"""From Python to JSON Schema and back: signatures, docstrings and pydantic models."""

from __future__ import annotations

import functools
import inspect
import json
import re
from itertools import pairwise
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Optional,
    TypeGuard,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakKeyDictionary

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from forge_cli.core.errors import SchemaError
from forge_cli.core.wire import JsonObject, own_text
from forge_cli.schema.json.fields import subschemas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

_GOOGLE_SECTION = r"((Keyword |Other )?(Args|Arguments|Parameters)|Params):\s*"
_SPHINX_FIELD = r":(param|parameter|arg|argument|key|keyword|kwarg|type)\s[^:]*:"
_NUMPY_SECTION = r"(Other )?Parameters\s*"


class SignatureModel(BaseModel):
    """The base of models made from signatures.

    Fields are named arg0, arg1 ... and have the parameter's name as alias, so that a parameter may
    be named ``schema``, ``json``, ``model_config`` or ``_x``, which pydantic reserves.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    parameter_names: ClassVar[dict[str, str]] = {}


def signature_model(
    function: Callable[..., Any],
    *,
    skip: Collection[str] = (),
    texts: Mapping[str, str] = MappingProxyType({}),
    defaults: Mapping[str, Hashable] = MappingProxyType({}),
) -> type[BaseModel]:
    """Return a pydantic model of a function's parameters, from hints, defaults and docstring.

    ``skip`` contains parameters that the caller passes itself, such as ``self`` and ``context``.
    ``texts`` describe parameters without a description in ``Field``; ``defaults`` replace those of
    the function.
    """
    # Bound methods are new objects at each access; their function is the same in every session.
    plain = getattr(function, "__func__", function)
    known: dict[Hashable, type[BaseModel]] = {}
    if isinstance(plain, FunctionType):
        known = _models.setdefault(plain, known)
    key = (
        plain is function,
        frozenset(skip),
        tuple(texts.items()),
        tuple(defaults.items()),
    )
    if key not in known:
        known[key] = _signature_model(function, skip, texts, defaults)
    return known[key]


_models: WeakKeyDictionary[FunctionType, dict[Hashable, type[BaseModel]]] = WeakKeyDictionary()


def _signature_model(
    function: Callable[..., Any],
    skip: Collection[str],
    texts: Mapping[str, str],
    defaults: Mapping[str, Hashable],
) -> type[BaseModel]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise SchemaError(
            f"{_name(function)}: its signature cannot be read; wrap it in a function of your own"
        ) from None
    parameters = [each for each in signature.parameters.values() if each.name not in skip]
    documented = dict(texts)
    if parameters:
        documented = {**_documented_parameters(function), **texts}
    fields: dict[str, Any] = {}
    seen: dict[str, str] = {}
    for index, each in enumerate(parameters):
        parameter = each.replace(default=defaults.get(each.name, each.default))
        alias, fields[f"arg{index}"] = _field(function, parameter, documented.get(parameter.name))
        if alias in seen:
            raise SchemaError(
                f"{_name(function)}: parameters '{seen[alias]}' and '{parameter.name}' share a name"
            )
        seen[alias] = parameter.name
    model = create_model(
        _name(function),
        __base__=SignatureModel,
        __module__=function.__module__ or __name__,
        **fields,
    )
    model.parameter_names = dict(zip(fields, seen.values(), strict=True))
    return model


def _name(function: Callable[..., Any]) -> str:
    return getattr(_underlying(function), "__name__", type(function).__name__)


def _underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def _field(
    function: Callable[..., Any], parameter: inspect.Parameter, text: str | None
) -> tuple[str, Any]:
    hint = _hint(function, parameter)
    has_default = parameter.default is not parameter.empty
    try:
        if has_default:
            info = FieldInfo.from_annotated_attribute(hint, parameter.default)
        else:
            info = FieldInfo.from_annotation(hint)
    except PydanticUserError as error:
        raise SchemaError(
            f"{_name(function)}: parameter '{parameter.name}': {first_line(error)}"
        ) from None
    # `x: int = None` is common, although the hint does not admit the default.
    if info.default is None:
        hint = _or_none(hint)
    alias = info.validation_alias
    if not isinstance(alias, str):
        alias = info.alias or parameter.name
    ours = Field(
        alias=alias,
        validation_alias=alias,
        serialization_alias=alias,
        description=info.description or text,
    )
    if has_default:
        return alias, (Annotated[hint, ours], parameter.default)
    return alias, Annotated[hint, ours]


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    where = f"{_name(function)}: parameter '{parameter.name}'"
    remedy = f"or define {_name(function)}_schema"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SchemaError(f"{where} takes any number of values; name each of them, {remedy}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise SchemaError(
            f"{where} is positional-only and cannot be passed by name; remove the '/'"
        )
    if parameter.annotation is parameter.empty:
        raise SchemaError(f"{where} has no type hint; add one ({parameter.name}: str), {remedy}")
    holder = SimpleNamespace(__annotations__={"hint": parameter.annotation})
    scope = getattr(_underlying(function), "__globals__", {})
    try:
        return get_type_hints(holder, globalns=scope, include_extras=True)["hint"]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        shown = f"type hint {parameter.annotation!r} cannot be resolved ({error})"
        raise SchemaError(
            f"{where}: {shown}; import or define it at the top of the module, {remedy}"
        ) from None


def _or_none(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return Annotated[_or_none(inner), *metadata]
    if hint is Any:
        return hint
    return Optional[hint]  # noqa: UP045 - a hint may be a ForwardRef, which has no "|"


def _documented_parameters(function: Callable[..., Any]) -> dict[str, str]:
    text = inspect.getdoc(_underlying(function)) or ""
    if "\n" not in text:  # a single line describes no parameters, so the parser is not loaded
        return {}
    import docstring_parser

    try:
        found = docstring_parser.parse(text).params
    except docstring_parser.ParseError:
        return {}
    described: dict[str, str] = {}
    for each in found:
        if each.description:
            text = " ".join(each.description.split())
            described |= {name.strip(): text for name in each.arg_name.split(",")}
    return described


def describe(function: Callable[..., Any]) -> str:
    """Return the docstring without its section of parameters, which the schema has already."""
    lines = (inspect.getdoc(_underlying(function)) or "").splitlines()
    kept: list[str] = []
    within: str | None = None
    for line, following in pairwise([*lines, ""]):
        if re.fullmatch(r"-{3,}\s*", following):
            within = "numpy" if re.fullmatch(_NUMPY_SECTION, line) else None
        elif within == "indented" and line and not line[0].isspace():
            within = None
        if within is None and (
            re.fullmatch(_GOOGLE_SECTION, line) or re.match(_SPHINX_FIELD, line)
        ):
            within = "indented"
        if within is None:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def is_model(value: Any) -> TypeGuard[type[BaseModel]]:
    """Return True for a class of pydantic models."""
    return isinstance(value, type) and issubclass(value, BaseModel)


def input_name(field: str, info: FieldInfo) -> str:
    """Return the name under which a field is given."""
    # Only a plain name can be a key in JSON Schema; a path into the input cannot.
    alias = info.validation_alias
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    return alias if isinstance(alias, str) else field


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return own_text(error).splitlines()[0]


class Describing(GenerateJsonSchema):
    """Generates schemas in which sets have a stable order."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        if isinstance(dft, set | frozenset):
            return _in_order(encoded)
        return encoded


_schemas: WeakKeyDictionary[type[BaseModel], JsonObject] = WeakKeyDictionary()


def model_schema(model: type[BaseModel]) -> JsonObject:
    """Return the JSON Schema of a model: an object, closed unless it allows extras."""
    if model not in _schemas:
        _schemas[model] = _described_by_pydantic(model)
    return _schemas[model]


def _described_by_pydantic(model: type[BaseModel]) -> JsonObject:
    if model.__pydantic_root_model__:
        raise SchemaError(
            f"{model.__name__}: a RootModel has no named fields; "
            "use a BaseModel with one field per argument"
        )
    try:
        generated = model.model_json_schema(by_alias=True, schema_generator=Describing)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise SchemaError(undescribable(model, error)) from None
    for schema in subschemas(generated):
        schema.pop("title", None)
        # The default of a masked field is a secret, and one that is not JSON cannot be sent.
        if schema.get("writeOnly") or not _is_json(schema.get("default")):
            schema.pop("default", None)
    top = generated
    # A recursive model is only a reference at the top, which providers refuse.
    if "$ref" in generated:
        top = {
            **generated["$defs"][generated["$ref"].rpartition("/")[2]],
            "$defs": generated["$defs"],
        }
    ordered = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    return {**ordered, **top}


def undescribable(model: type[BaseModel], error: Exception) -> str:
    """Return the first field of a model without a JSON Schema, and the remedy."""
    names = model.parameter_names if issubclass(model, SignatureModel) else {}
    for field, info in model.model_fields.items():
        try:
            TypeAdapter[Any](info.rebuild_annotation()).json_schema(schema_generator=Describing)
        except (PydanticUserError, PydanticUndefinedAnnotation) as problem:
            place = f"{model.__name__}: '{names.get(field, field)}' ({own_text(info.annotation)})"
            if problem.code == "typed-dict-version":
                remedy = "before Python 3.12, import it from typing_extensions"
                return f"{place} has a TypedDict of typing; {remedy}"
            remedy = "use a type that JSON can carry"
            if names:
                remedy += f", or define {model.__name__}_schema"
            return f"{place} has no JSON Schema; {remedy}"
    return f"{model.__name__}: {first_line(error)}"


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return False
    return True


def keyword_args(instance: BaseModel) -> dict[str, Any]:
    """Return the typed values of a validated model under the names of the function's parameters."""
    names = instance.parameter_names if isinstance(instance, SignatureModel) else {}
    values = {
        names.get(field, field): getattr(instance, field) for field in type(instance).model_fields
    }
    return {**values, **(instance.model_extra or {})}


def read_strict(model: type[BaseModel], args: JsonObject) -> BaseModel:
    """Read args as strictly as JSON is: a date may be a string, but 7 is not "7"."""
    return model.model_validate_json(json.dumps(args), strict=True, by_alias=True)


def plain_args(instance: BaseModel, given: JsonObject) -> JsonObject:
    """Return plain args from which the same instance can be read again.

    A value that a dump loses, such as a masked secret or an infinite default, stays as it was
    given, or is left to the default of the model.
    """
    text = instance.model_dump_json(
        by_alias=True, round_trip=True, warnings=False, fallback=lambda _: None
    )
    written = json.loads(text, parse_constant=lambda _: None)
    names = {}
    values = {}
    for field, info in type(instance).model_fields.items():
        names[field] = input_name(field, info)
        key = info.serialization_alias or field
        if isinstance(written, dict) and key in written:
            is_set = isinstance(getattr(instance, field), set | frozenset)
            values[names[field]] = _in_order(written[key]) if is_set else written[key]
    # Leaving out one value can change another one, so this repeats until nothing else is lost.
    lost: set[str] = set()
    while True:
        known = dict(given)
        for name, value in values.items():
            if name not in lost:
                known[name] = value
        plain = {name: known[name] for name in (*names.values(), *given) if name in known}
        newly = _lost(instance, plain, names) - lost
        if not newly:
            return plain
        lost |= newly


def _in_order(items: list[Any]) -> list[Any]:
    """Return a set's items in the same order in every process.

    Otherwise schemas and fingerprints would change with the hash seed.
    """
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _lost(instance: BaseModel, plain: JsonObject, names: Mapping[str, str]) -> set[str]:
    try:
        again = read_strict(type(instance), plain)
    except ValidationError as error:
        failed = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        # An error of the model as a whole names no field: then nothing of the dump is reliable.
        return failed & plain.keys() or set(plain)
    return {name for field, name in names.items() if not _same(instance, again, field)}


def _same(instance: BaseModel, again: BaseModel, field: str) -> bool:
    before = getattr(instance, field)
    after = getattr(again, field)
    # A default is not validated, so it may have another type than the value read back.
    converted_default = (
        field not in instance.model_fields_set
        and type(before) is not type(after)
        and after is not None
    )
    return converted_default or bool(before == after)
