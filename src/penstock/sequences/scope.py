"""What a block sees: the values behind the paths of its templates and expressions.

Only what a path names is read from the memo.
"""

from collections.abc import Iterator
from typing import Final

from penstock.sequences.blocks import Condition, ForEach, Loop, Tree
from penstock.sequences.context import DATA
from penstock.sequences.expression_parser import Expression
from penstock.sequences.expressions import evaluate
from penstock.sequences.memory import At, CompositeAt
from penstock.sequences.paths import Path, dig
from penstock.sequences.pool_values import Gap
from penstock.sequences.run import Run
from penstock.sequences.templates import Template, fill_around, fill_in
from penstock.sequences.values import LARGEST, TemplateError, from_json, is_true, to_text

CHUNK: Final = 100  # items of a list that one entry holds
_NONE: Final = object()


def state_key(name: str) -> str:
    """Return the key under which a value of the instance's own state is remembered."""
    return f"@state/{name}"


class Scope:
    """The values that *at* sees; *error* is what its own attempt failed with."""

    def __init__(self, run: Run, at: At, error: str | None = None) -> None:
        self._run = run
        self._at = at
        self._error = error
        self._length = 0
        run.effort.begin()

    def holds(self, condition: Condition) -> bool:
        """Tell whether *condition* holds here and now."""
        return condition if isinstance(condition, bool) else is_true(self.value(condition))

    def value(self, expression: Expression) -> object:
        """Return what *expression* comes to here and now."""
        memory = self._run.memory
        seed = f"{memory.instance}\0{self._at.key}"
        return evaluate(expression, self.look_up, memory.now, seed, self._run.effort)

    def render(self, tree: Tree, gaps: list[Gap] | None = None, way: tuple[str | int, ...] = ()) -> object:
        """Return *tree*, to which this *way* leads, with all its templates filled in.

        Where there are *gaps*, the name of a pool's resource is left out, and noted there.
        """
        match tree:
            case Template() if gaps is not None and tree.names_resource:
                text, places = fill_around(tree, self.look_up, self._run.effort)
                gaps.append(Gap(way, places))
                return self._measured(text)
            case Template():
                return self._measured(fill_in(tree, self.look_up, self._run.effort))
            case Expression():
                return self._measured(self.value(tree))
            case list():
                return [self.render(item, gaps, (*way, n)) for n, item in enumerate(tree)]
            case dict():
                return {name: self.render(item, gaps, (*way, name)) for name, item in tree.items()}
            case _:
                return tree

    def _measured(self, value: object) -> object:
        """Return *value*, unless all that was filled in is too long: many places may name one long value."""
        self._length += len(to_text(value))
        if self._length > LARGEST:
            raise TemplateError(f"it has more than {LARGEST:,} characters; at most that many are allowed")
        return value

    def look_up(self, path: Path) -> object:  # noqa: PLR0911 - one for each root
        """Return the value that *path* leads to; null if there is none, an error if its root is unknown."""
        context, steps = self._run.context, path.steps
        match path.root:
            case "context" if steps[:1] == (DATA,):
                return self._data(steps[1:])
            case "context":
                item = self._item(steps[:1])
                return context.dig(steps) if item is _NONE else dig(item, steps[1:])
            case "data" | "input":
                return self._data(steps)
            case "config" | "runtime" as section:
                return dig(context.section(section), steps)
            case "outputs" | "steps":
                return dig(self._output(_named(path)), steps[1:])
            case "state":
                return dig(self._state(_named(path)), steps[1:])
            case "instance_id":
                return self._run.memory.instance
            case "error":
                return dig(from_json(self._failure()), steps)
            case name if (item := self._item((name,))) is not _NONE:
                return dig(item, steps)
            case name:
                raise TemplateError(
                    f"there is nothing called {name!r}; write data.{path} for a value of the context"
                )

    def _data(self, steps: tuple[str, ...]) -> object:
        item = self._item(steps[:1])
        return dig(self._run.context.data, steps) if item is _NONE else dig(item, steps[1:])

    def _ancestors(self) -> Iterator[CompositeAt]:
        at = self._at
        while at.block.id in self._run.sequence.places:
            where = self._run.around(at)
            yield where
            at = where.at

    def _item(self, names: tuple[str, ...]) -> object:
        """Return the item of the innermost for_each whose variable has that name."""
        known = self._run.sequence.item_vars
        for where in self._ancestors() if known.issuperset(names) and names else ():
            if isinstance(where.block, ForEach) and (where.block.item_var,) == names:
                items = self._run.result(f"{where.at.key}@items.{where.iteration // CHUNK}")
                return dig(items, (str(where.iteration % CHUNK),))
        return _NONE

    def _failure(self) -> str | None:
        """Return the error that this attempt, or else the nearest try or saga around it, failed with."""
        if self._error is not None:
            return self._error
        for where in self._ancestors():
            error = self._run.frame(where.at.key).get("error")
            if isinstance(error, str):
                return error
        return None

    def _state(self, name: str) -> object:
        return self._run.result(state_key(name))

    def _output(self, block_id: str) -> object:
        """Return the result of a block; of one in a loop, that of the last iteration, which is ours if we are in it."""
        places = self._run.sequence.places
        if block_id not in places:
            return None
        loops: list[str] = []
        name = block_id
        while name in places:
            parent = places[name].parent
            name = parent.id
            if isinstance(parent, Loop | ForEach):
                loops.append(name)
        prefix = ""
        for loop in reversed(loops):
            prefix = f"{prefix}{loop}#{self._run.frame(prefix + loop).get('n', 0)}/"
        return self._run.result(prefix + block_id)


def _named(path: Path) -> str:
    if not path.steps:
        raise TemplateError(f"{path.root} needs a name, as in {path.root}.x")
    return path.steps[0]
