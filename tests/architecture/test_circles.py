"""No module imports itself by way of others, not even for its types, and no package of some."""

from __future__ import annotations

import grimp
import pytest

FLOORS = [
    *("api", "application", "cli", "cloud", "controllers", "dashboard", "domain", "emulator"),
    "store",
]


def circles(graph: grimp.ImportGraph) -> set[frozenset[str]]:
    """Each set of modules of which any two reach each other by imports."""
    below = {module: graph.find_upstream_modules(module) for module in graph.modules}
    meeting = {
        frozenset({module, *(other for other in below[module] if module in below[other])})
        for module in graph.modules
    }
    return {circle for circle in meeting if len(circle) > 1}


def by_package(graph: grimp.ImportGraph, root: str) -> grimp.ImportGraph:
    """The imports between the packages below `root`; the files of `root` stand for themselves."""

    def place(module: str) -> str:
        package = module.rpartition(".")[0]
        return module if package == root else package

    folded = grimp.ImportGraph()
    modules = {module for module in graph.modules if module.startswith(f"{root}.")}
    for importer in modules:
        for imported in graph.find_modules_directly_imported_by(importer) & modules:
            if place(importer) != place(imported):
                folded.add_import(importer=place(importer), imported=place(imported))
    return folded


def drawn(*arrows: str) -> grimp.ImportGraph:
    """A graph with an import for each arrow, as `a -> b`."""
    graph = grimp.ImportGraph()
    for arrow in arrows:
        importer, imported = arrow.split(" -> ")
        graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.fixture(scope="module")
def service():
    return grimp.build_graph("service", exclude_type_checking_imports=False, cache_dir=None)


def test_no_module_of_the_service_is_in_a_circle(service):
    assert circles(service) == set()


@pytest.mark.parametrize("floor", FLOORS)
def test_no_package_is_in_a_circle(service, floor):
    packages = by_package(service, f"service.{floor}")
    assert len(packages.modules) > 2, "there is nothing to compare"
    assert circles(packages) == set()


def test_packages_meet_where_their_modules_do_not():
    graph = drawn(
        "lab.a.x -> lab.b.x", "lab.b.y -> lab.a.y", "lab.c.x -> lab.a.x", "lab.d -> lab.c.y"
    )
    assert circles(graph) == set()
    assert circles(by_package(graph, "lab")) == {frozenset({"lab.a", "lab.b"})}


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
