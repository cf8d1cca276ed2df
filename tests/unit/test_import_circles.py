"""No module imports itself through others. (import-linter's contract looks at sub-packages, and skips some of them.)"""

from __future__ import annotations

import graphlib

import grimp

STILL_CIRCULAR = "kajitori.embedded.apiserver."
"""Modules below this package still import each other in a circle."""


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("kajitori", cache_dir=None)
    modules = {module for module in graph.modules if not module.startswith(STILL_CIRCULAR)}
    imports = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise AssertionError(f"a circle of imports: {circle}") from None
