"""Read and check the definition of a sequence.  Pure."""

from typing import Final, TypeVar

from penstock.errors import InvalidError
from penstock.sequences.blocks import (
    AnyBlock,
    Branch,
    Branching,
    CancellationScope,
    Condition,
    ForEach,
    Loop,
    Parallel,
    Place,
    Race,
    Root,
    Router,
    Saga,
    Sequence,
    Split,
    Step,
    SubSequence,
    Tree,
    TryCatch,
)
from penstock.sequences.expression_parser import Expression, read_expression
from penstock.sequences.parse_steps import IGNORED, read_step
from penstock.sequences.reading import (
    Fields,
    condition,
    each,
    flag,
    identifier,
    name,
    params,
    some_time,
    tree,
    whole,
)

MAX_BLOCKS: Final = 5_000
MAX_DEPTH: Final = 64
MAX_BRANCHES: Final = 256
MAX_ITERATIONS: Final = 100_000
MAX_ID: Final = 255
ROOT: Final = "@root"
_MARKS: Final = frozenset("@#/")  # keys are made of ids and these
_ABOUT: Final = ("id", "tenant_id", "namespace", "created_at", "deprecated", "status")

C = TypeVar("C", bound=Branching)


def parse(definition: object) -> Sequence:
    """Read a sequence from decoded JSON, or raise `InvalidError`, which names the field."""
    fields = Fields(definition, "")
    for field in _ABOUT:
        fields.raw(field)
    title = fields.need("name", name)
    version = fields.read("version", whole(0, 2**31 - 1), 1)
    reading = _Reading()
    blocks = fields.need("blocks", each(reading.block, MAX_BLOCKS, some=True))
    after = [fields.read(field, reading.steps_only, ()) for field in ("on_failure", "on_cancel")]
    root = reading.placed(Root(ROOT, (tuple(blocks), *after)))
    warnings = [*reading.ignored, *fields.end("input_schema", "sla", "interceptors")]
    told = tuple(f"{path} has no effect" for path in warnings)
    item_vars = frozenset(block.item_var for block in reading.blocks.values() if isinstance(block, ForEach))
    return Sequence(title, version, root, reading.blocks, reading.places, item_vars, told)


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.blocks: dict[str, AnyBlock] = {}
        self._ids: set[str] = set()
        self.places: dict[str, Place] = {}
        self.ignored: list[str] = []
        self._depth = 0

    def block(self, value: object, path: str, default_id: str | None = None) -> AnyBlock:
        fields = Fields(value, path)
        block_id = self._id(fields, default_id)
        kind = fields.read("type", _kind, "step")
        read = _READERS.get(kind)
        if read is None:
            raise InvalidError(fields.at("type"), f"{kind!r} must be one of: {', '.join(_READERS)}")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidError(path, f"blocks are nested deeper than {MAX_DEPTH} levels")
        block = read(self, fields, block_id)
        self._depth -= 1
        self.blocks[block_id] = block
        return block

    def branch(self, value: object, path: str) -> Branch:
        return tuple(each(self.block)(value, path))

    def some(self, value: object, path: str) -> Branch:
        return tuple(each(self.block, some=True)(value, path))

    def branches(self, value: object, path: str) -> tuple[Branch, ...]:
        return tuple(each(self.branch, MAX_BRANCHES, some=True)(value, path))

    def steps_only(self, value: object, path: str) -> Branch:
        branch = self.branch(value, path)
        for index, block in enumerate(branch):
            if not isinstance(block, Step):
                raise InvalidError(f"{path}[{index}].type", "must be a step")
        return branch

    def placed(self, composite: C) -> C:
        """Remember where the blocks inside *composite* stand."""
        for number, branch in enumerate(composite.branches):
            for index, block in enumerate(branch):
                self.places[block.id] = Place(composite, number, index)
        return composite

    def end(self, fields: Fields, *ignored: str) -> None:
        self.ignored += fields.end(*ignored)

    def _id(self, fields: Fields, default: str | None) -> str:
        block_id = default if default is not None and not fields.has("id") else fields.need("id", name)
        if len(block_id) > MAX_ID or _MARKS & set(block_id):
            raise InvalidError(fields.at("id"), f"must have at most {MAX_ID} characters, none of @ # /")
        if block_id in self._ids:
            raise InvalidError(fields.at("id"), f"{block_id!r} is the id of another block")
        self._ids.add(block_id)
        if len(self._ids) > MAX_BLOCKS:
            raise InvalidError(fields.path, f"there are more than {MAX_BLOCKS:,} blocks")
        return block_id


def _kind(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidError(path, "must be text")
    return value


def _step(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    step = read_step(fields, block_id)
    # Only a saga reads it.
    if fields.has("compensation"):
        reading.ignored.append(fields.at("compensation"))
    reading.end(fields, *IGNORED)
    return step


def _parallel(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = Parallel(block_id, fields.need("branches", reading.branches))
    reading.end(fields)
    return reading.placed(block)


def _race(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = Race(block_id, fields.need("branches", reading.branches))
    reading.end(fields, "semantics")
    return reading.placed(block)


def _loop(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = Loop(
        block_id,
        (fields.need("body", reading.some),),
        fields.read("condition", condition, True),  # noqa: FBT003 - a condition
        fields.read("break_on", condition, False),  # noqa: FBT003 - a condition
        fields.read("max_iterations", whole(1, MAX_ITERATIONS), 1_000),
        fields.read("continue_on_error", flag, False),  # noqa: FBT003 - the default
        fields.read("poll_interval", some_time, 0),
    )
    reading.end(fields, "retain_iterations")
    return reading.placed(block)


def _for_each(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = ForEach(
        block_id,
        (fields.need("body", reading.some),),
        fields.need("collection", _collection),
        fields.read("item_var", identifier, "item"),
        fields.read("max_iterations", whole(1, MAX_ITERATIONS), 1_000),
    )
    reading.end(fields, "retain_iterations")
    return reading.placed(block)


def _collection(value: object, path: str) -> Expression | Tree:
    """Read a list: itself, a template, or an expression that comes to one."""
    if isinstance(value, str) and "{{" not in value:
        return read_expression(value, path)
    if not isinstance(value, str | list):
        raise InvalidError(path, "must be a list, or a text that comes to one")
    return tree(value, path)


def _router(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    def route(value: object, path: str) -> tuple[Condition, Branch]:
        inside = Fields(value, path)
        read = inside.need("condition", condition), inside.need("blocks", reading.branch)
        inside.end()
        return read

    routes = fields.need("routes", each(route, MAX_BRANCHES))
    default = fields.read("default", reading.branch, ())
    block = Router(
        block_id, (*(branch for _, branch in routes), default), tuple(wanted for wanted, _ in routes)
    )
    reading.end(fields)
    return reading.placed(block)


def _try_catch(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = TryCatch(
        block_id,
        (
            fields.need("try_block", reading.some),
            fields.need("catch_block", reading.branch),
            fields.read("finally_block", reading.branch, ()),
        ),
    )
    reading.end(fields)
    return reading.placed(block)


def _sub_sequence(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = SubSequence(
        block_id,
        fields.need("sequence_name", name),
        fields.read("version", whole(0, 2**31 - 1), None),
        fields.read("input", params, {}),
    )
    reading.end(fields)
    return block


def _split(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    def variant(value: object, path: str) -> tuple[str, int, Branch]:
        inside = Fields(value, path)
        read = (
            inside.need("name", name),
            inside.need("weight", whole(0, 2**31 - 1)),
            inside.need("blocks", reading.branch),
        )
        inside.end()
        return read

    variants = fields.need("variants", each(variant, MAX_BRANCHES))
    path = fields.at("variants")
    if len(variants) < 2:  # noqa: PLR2004 - one is no split
        raise InvalidError(path, "must be at least two")
    if not any(weight for _, weight, _ in variants):
        raise InvalidError(path, "must not all have the weight 0")
    names, weights, branches = zip(*variants, strict=True)
    if len(set(names)) < len(names):
        raise InvalidError(path, "must have different names")
    reading.end(fields)
    return reading.placed(Split(block_id, branches, names, weights))


def _scope(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    block = CancellationScope(block_id, (fields.need("blocks", reading.branch),))
    reading.end(fields)
    return reading.placed(block)


def _saga(reading: _Reading, fields: Fields, block_id: str) -> AnyBlock:
    def pair(value: object, path: str) -> tuple[str, Branch, Branch]:
        inside = Fields(value, path)
        step_id = inside.need("id", name)
        action = inside.need("action", lambda value, path: reading.block(value, path, step_id))
        undo = inside.read(
            "compensation", lambda value, path: reading.block(value, path, f"{step_id}:compensation"), None
        )
        inside.end()
        return step_id, (action,), () if undo is None else (undo,)

    steps = fields.need("steps", each(pair, some=True))
    names = tuple(step_id for step_id, _, _ in steps)
    if len(set(names)) < len(names):
        raise InvalidError(fields.at("steps"), "must have different ids")
    reading.end(fields)
    branches = tuple(branch for _, action, undo in steps for branch in (action, undo))
    return reading.placed(Saga(block_id, branches, names))


_READERS: Final = {
    "step": _step,
    "parallel": _parallel,
    "race": _race,
    "loop": _loop,
    "for_each": _for_each,
    "router": _router,
    "try_catch": _try_catch,
    "sub_sequence": _sub_sequence,
    "a_b_split": _split,
    "ab_split": _split,
    "cancellation_scope": _scope,
    "saga": _saga,
}
