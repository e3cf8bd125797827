"""Imports modules in a changed form, without a changed file: the tree of the user is only read."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

Rewrite = Callable[[str], ast.Module]
ENTERED: set[tuple[str, str]] = set()


class ChangedLoader(SourceFileLoader):
    """Loads a module from a changed tree of its source."""

    def __init__(self, name: str, path: str, rewrite: Rewrite) -> None:
        super().__init__(name, path)
        self.rewrite = rewrite

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed tree; nothing is cached."""
        return compile(self.rewrite(self.get_data(self.path).decode("utf-8")), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run it, with a place to say which functions are entered."""
        module.__dict__["__entered__"] = ENTERED.add
        super().exec_module(module)


class ChangedModules(MetaPathFinder):
    """Finds some modules by name in their changed form; every other is found as always."""

    def __init__(self, rewrites: Mapping[str, Rewrite]) -> None:
        self.rewrites = rewrites

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual specification with another loader."""
        if fullname not in self.rewrites:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = ChangedLoader(fullname, spec.origin, self.rewrites[fullname])
        return spec


def import_changed(rewrites: Mapping[str, Rewrite]) -> None:
    """From here on these modules are imported in their changed form; none may have been imported before."""
    early = sorted(set(rewrites) & set(sys.modules))
    if early:
        raise RuntimeError(f"imported before it was changed: {early[0]}")
    sys.meta_path.insert(0, ChangedModules(rewrites))
