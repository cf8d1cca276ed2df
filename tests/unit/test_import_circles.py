"""No module imports itself through others. (import-linter's contract checks sub-packages, and skips some of them.)"""

from __future__ import annotations

import graphlib

import grimp


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("kajitori", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise AssertionError(f"a circle of imports: {circle}") from None
