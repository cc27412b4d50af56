"""No module imports itself by way of others, not even for the sake of types."""

from __future__ import annotations

import grimp
import pytest

KNOWN = {
    frozenset(f"service.cli.{name}" for name in ("client", "configuration", "render", "trust")),
}
"""The circles of today, each as the modules in it. A circle that is cut leaves this list."""


def circles(graph: grimp.ImportGraph) -> set[frozenset[str]]:
    """Each set of modules of which any two reach each other by imports."""
    below = {module: graph.find_upstream_modules(module) for module in graph.modules}
    meeting = {
        frozenset({module, *(other for other in below[module] if module in below[other])})
        for module in graph.modules
    }
    return {circle for circle in meeting if len(circle) > 1}


def drawn(*arrows: str) -> grimp.ImportGraph:
    """A graph with an import for each arrow, as `a -> b`."""
    graph = grimp.ImportGraph()
    for arrow in arrows:
        importer, imported = arrow.split(" -> ")
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_no_module_of_the_service_is_in_a_circle_that_is_not_known():
    graph = grimp.build_graph("service", exclude_type_checking_imports=False, cache_dir=None)
    assert circles(graph) == KNOWN


@pytest.mark.parametrize(
    ("arrows", "found"),
    [
        (["a -> b", "b -> c", "a -> c"], set()),
        (["a -> b", "b -> a"], {frozenset("ab")}),
        (["a -> b", "b -> c", "c -> a", "c -> d"], {frozenset("abc")}),
        (["a -> b", "b -> a", "c -> d", "d -> c", "a -> c"], {frozenset("ab"), frozenset("cd")}),
    ],
)
def test_a_circle_is_found_whatever_its_length(arrows, found):
    assert circles(drawn(*arrows)) == found
