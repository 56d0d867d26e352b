"""The rules of layout, read from the source with `ast`: nothing here imports the project.

What may be imported where, who may print, how long a module or function may be, and what no
committed file may say. An exception stands in a table with its reason, or does not exist.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "ledger",
    "analysis",
    "protocols",
    "drivers",
    "verdicts",
    "custody",
    "engine",
    "schemas",
    "verbs",
)
MODULES = tuple(
    sorted(
        path.relative_to(ROOT).as_posix()
        for path in (
            ROOT / "cli.py",
            *(file for name in PACKAGES for file in ROOT.glob(f"{name}/*.py")),
        )
    )
)

# Packages and modules of the project that each package may import, besides itself.
LAYERS = {
    "ledger": (),
    "analysis": (),
    "schemas": (),
    "protocols": ("ledger",),
    "drivers": ("ledger", "protocols"),
    "verdicts": ("ledger", "analysis", "protocols"),
    "custody": ("ledger", "protocols", "schemas"),
    "engine": ("ledger", "analysis", "protocols", "drivers", "verdicts", "custody", "schemas"),
    "verbs": (
        "engine",
        "custody",
        "drivers",
        "protocols",
        "verdicts",
        "ledger.errors",
        "ledger.events",
        "ledger.findings",
        "ledger.given",
        "examples.demo",
        "schemas",
    ),
    "cli": ("ledger.errors", "verbs"),
}
# Third-party packages that all modules of a package may import.
LIBRARIES = {
    "ledger": ("msgspec", "blake3", "sqlite_utils"),
    "analysis": ("numpy", "scipy.special"),
    "schemas": (),
    "protocols": ("msgspec",),
    "drivers": ("anyio", "msgspec"),
    "verdicts": ("msgspec",),
    "custody": ("msgspec",),
    "engine": ("anyio", "msgspec"),
    "verbs": ("click", "msgspec", "rich"),
    "cli": ("click", "msgspec"),
}
# Third-party packages that one module may import beyond those.
LIBRARIES_OF_MODULE = {
    "ledger/checkpoint.py": ("cryptography",),
    "protocols/file.py": ("ruamel.yaml",),
    "protocols/edit.py": ("ruamel.yaml",),
    "custody/timestamping.py": ("cryptography", "rfc3161_client"),
    # The bridge from events to arrays and back.
    "verdicts/arrays.py": ("numpy",),
    "verdicts/completing.py": ("numpy",),
    "verdicts/assigned_arrays.py": ("numpy",),
    "verdicts/winning.py": ("numpy",),
    "verdicts/frames.py": ("numpy",),
    "verdicts/truth.py": ("numpy",),
    "verdicts/rule_flags.py": ("numpy",),
    "verdicts/rule_scores.py": ("numpy",),
    "verdicts/fewest.py": ("numpy",),
    "verdicts/filling.py": ("numpy",),
    "verdicts/tipping.py": ("numpy",),
    "verdicts/slot_values.py": ("numpy",),
    "engine/simulated_outcomes.py": ("numpy",),
}
# Imported inside the function that needs it, since other functions of the package do without it.
LATE = {"ledger": ("sqlite_utils",), "analysis": ("scipy",)}
SHADOWS = (*PACKAGES, "cli", "examples", "tests")
MODULE_NAMES_REFUSED = ("utils", "util", "helpers", "helper", "common", "misc", "manager")

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
POSITIONAL_MAX = 5
LONG_MODULES = {
    "ledger/events.py": "declarations only: every field of every event in one place, with no logic",
}
LONG_FUNCTIONS: dict[str, str] = {}


@cache
def parse(module: str) -> ast.Module:
    """Returns the syntax tree of a module given by its path below the root."""
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), filename=module)


def package_of(module: str) -> str:
    """Returns the row of the tables that a module belongs to."""
    return module.partition("/")[0].removesuffix(".py")


def nodes(tree: ast.AST, *, top_level: bool) -> Iterator[ast.AST]:
    """Yields all nodes; with `top_level` only those that run when the module is imported."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    for child in ast.iter_child_nodes(tree):
        if top_level and (isinstance(child, functions) or is_type_checking(child)):
            continue
        yield child
        yield from nodes(child, top_level=top_level)


def is_type_checking(node: ast.AST) -> bool:
    """Tells whether a node is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(module: str, *, top_level: bool = False) -> list[tuple[int, str]]:
    """Returns the line and the dotted name of each import; relative ones start with a dot.

    `from a import b` counts as `a.b` where that may name a module: in `fairtrial` and `scipy`.
    """
    found: list[tuple[int, str]] = []
    for node in nodes(parse(module), top_level=top_level):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            split = source in ("scipy", "ruamel") or re.fullmatch(r"fairtrial(\.\w+)?", source)
            names = [f"{source}.{alias.name}" for alias in node.names] if split else [source]
            found += [(node.lineno, name) for name in names]
    return found


def is_within(name: str, allowed: tuple[str, ...]) -> bool:
    """Tells whether a dotted name is one of the allowed ones or lies below one."""
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def is_allowed(module: str, name: str) -> bool:
    """Tells whether a module may import a dotted name."""
    package = package_of(module)
    if name.startswith("."):
        return package != "cli" and re.match(r"\.(?!\.)", name) is not None
    if name.partition(".")[0] == "fairtrial":
        return is_within(name.removeprefix("fairtrial."), LAYERS[package])
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    return is_within(name, LIBRARIES[package] + LIBRARIES_OF_MODULE.get(module, ()))


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    """A module imports what its layer may import, third-party names included."""
    refused = [
        f"{module}:{line} {name}" for line, name in imports(module) if not is_allowed(module, name)
    ]
    assert [] == refused


@pytest.mark.parametrize("module", MODULES)
def test_heavy_imports_are_late(module: str) -> None:
    """What slows the start of the command line is imported by the function that needs it."""
    late = LATE.get(package_of(module), ())
    refused = [
        f"{module}:{line} {name}"
        for line, name in imports(module, top_level=True)
        if is_within(name, late)
    ]
    assert [] == refused


@pytest.mark.parametrize("module", MODULES)
def test_no_name_that_a_folder_could_shadow_is_imported(module: str) -> None:
    """Packages of ours are imported as `fairtrial.` and never by a name that others may own."""
    assert [] == [f"{line} {name}" for line, name in imports(module) if is_within(name, SHADOWS)]


@pytest.mark.parametrize("module", MODULES)
def test_only_the_command_line_prints(module: str) -> None:
    """`print`, stdout and stderr belong to cli.py and its verbs; the others return values."""
    calls = [
        f"{module}:{node.lineno} {ast.unparse(node)[:60]}"
        for node in ast.walk(parse(module))
        if (isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"))
    ]
    assert package_of(module) in ("cli", "verbs") or [] == calls


@pytest.mark.parametrize("module", MODULES)
def test_module_says_its_job(module: str) -> None:
    """Each module starts with a docstring whose first line is a sentence of its own."""
    docstring = ast.get_docstring(parse(module)) or ""
    first, _, rest = docstring.partition("\n")
    assert first
    assert rest == "" or rest.startswith("\n")


@pytest.mark.parametrize("module", MODULES)
def test_all_is_a_tuple_of_names_that_exist(module: str) -> None:
    """`__all__` is a tuple of text; each name in it is defined in the module, once."""
    tree = parse(module)
    assigned = [
        node for node in tree.body if isinstance(node, ast.Assign) and "__all__" in targets(node)
    ]
    for node in assigned:
        assert isinstance(node.value, ast.Tuple)
        names = list(ast.literal_eval(node.value))
        assert sorted(set(names)) == sorted(names)
        assert [] == sorted(set(names) - defined(tree))


def targets(node: ast.stmt) -> list[str]:
    """Returns the names that an assignment binds."""
    if isinstance(node, ast.Assign):
        return [
            name.id
            for each in node.targets
            for name in ast.walk(each)
            if isinstance(name, ast.Name)
        ]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def defined(tree: ast.Module) -> set[str]:
    """Returns the names that a module binds at its top level."""
    names: set[str] = set()
    for node in tree.body:
        names |= set(targets(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names


@pytest.mark.parametrize("module", MODULES)
def test_module_and_functions_are_short(module: str) -> None:
    """A module over 400 lines or a function over 60 stands in a table with its reason."""
    source = (ROOT / module).read_text(encoding="utf-8")
    long = [module] if source.count("\n") > MODULE_LINES_MAX and module not in LONG_MODULES else []
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and f"{module}:{node.name}" not in LONG_FUNCTIONS:
                long.append(f"{module}:{node.name} {lines} lines")
    assert [] == long


@pytest.mark.parametrize("module", MODULES)
def test_parameters_that_have_no_name_at_the_call_are_few(module: str) -> None:
    """At most five are given by position; a verb's options come by name from the command line."""
    many: list[str] = []
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_verb(node):
            given = [*node.args.posonlyargs, *node.args.args]
            count = len([one for one in given if one.arg not in ("self", "cls")])
            many += [f"{module}:{node.lineno} {node.name}"] if count > POSITIONAL_MAX else []
    assert [] == many


def is_verb(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether a function is called by click."""
    return any(ast.unparse(one).startswith("verb(") for one in node.decorator_list)


def test_exceptions_are_still_needed() -> None:
    """A name in a table of exceptions exists and is still over the limit."""
    for module in LONG_MODULES:
        assert (ROOT / module).read_text(encoding="utf-8").count("\n") > MODULE_LINES_MAX
    for name in LONG_FUNCTIONS:
        module, _, function = name.partition(":")
        lengths = [
            (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(parse(module))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
        ]
        assert max(lengths) > FUNCTION_LINES_MAX


@pytest.mark.parametrize("module", MODULES)
def test_no_unfinished_work(module: str) -> None:
    """No body is a lone `pass` or `...` outside a Protocol, and nothing is left to implement."""
    tree = parse(module)
    protocols = {
        method
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any("Protocol" in ast.unparse(base) for base in node.bases)
        for method in node.body
    }
    stubs = [
        f"{module}:{node.lineno} {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node not in protocols
        and is_stub(node)
    ]
    assert [] == stubs


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tells whether a function says nothing, or only that it is not implemented.

    A body that is a docstring alone is a function that does nothing, and says why.
    """
    if any("overload" in ast.unparse(each) for each in function.decorator_list):
        return False
    body = function.body[1:] if ast.get_docstring(function) else function.body
    nothing = [ast.unparse(node) for node in body] in (["pass"], ["..."])
    return nothing or "NotImplementedError" in ast.dump(function)


def test_root_holds_one_module() -> None:
    """Any other .py file at the root would be shipped as a module of the package."""
    assert ["cli.py"] == sorted(path.name for path in ROOT.glob("*.py"))


def test_root_and_tests_are_no_packages() -> None:
    """An `__init__.py` at the root or in tests would change what an import finds."""
    inits = [ROOT / "__init__.py", *(ROOT / "tests").rglob("__init__.py")]
    assert [] == [path for path in inits if path.exists()]


def test_packages_are_one_level_deep() -> None:
    """A module that needs subfolders is two modules."""
    assert [] == sorted(path for name in PACKAGES for path in ROOT.glob(f"{name}/*/*.py"))


def test_module_names_say_something() -> None:
    """No module is named after having no subject."""
    assert [] == [module for module in MODULES if Path(module).stem in MODULE_NAMES_REFUSED]


def committed() -> list[Path]:
    """Returns the files that are in the repository, or would be by the next `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git work tree")
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


# Assembled, so that this file does not contain what it looks for. A path of a machine begins with
# its slash; `runs/root/` in the address of a source is another thing.
REFUSED_TEXT = re.compile(
    "|".join(
        (
            r"(?<![\w*}.-])/(?:work|root|farm)" + "/",
            r"\." + "library/",
            "py" + r"pi\.org",
            "python" + r"hosted\.org",
            "npm" + r"js\.org",
            r"registry\." + "npm",
            r"deb\." + "debian",
            "--" + "find-links",
            "index" + "-url",
            "sub" + "-?agent",
        )
    ),
    flags=re.IGNORECASE,
)


def test_repository_speaks_of_the_project_alone() -> None:
    """No committed text names a path of a machine or a host of a package registry."""
    found: list[str] = []
    for path in committed():
        text = path.read_bytes().decode("utf-8", errors="replace")
        words = sorted({match.group() for match in REFUSED_TEXT.finditer(text)})
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert [] == found


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("see /" + "work/main/x", True),
        ("'/" + "root/.cache'", True),
        ("runs/" + "root/a.jsonl", False),
        ("https://files.python" + "hosted.org/x", True),
        ("pip install --index" + "-url x", True),
        ("a working day", False),
    ],
)
def test_refused_text_is_recognised(text: str, is_refused: bool) -> None:
    """The pattern finds what it is for and leaves alone what only looks like it."""
    assert is_refused == (REFUSED_TEXT.search(text) is not None)


def test_no_unfinished_mark_is_committed() -> None:
    """What is not done is an issue, not a comment in the source."""
    marks = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in committed()
        if path.suffix in (".py", ".toml", ".sh") or path.name in ("Makefile", "run", "venv")
        for match in marks.finditer(path.read_text(encoding="utf-8"))
    ]
    assert [] == found


HELP_PROGRAM = """
import sys
from fairtrial.cli import main
sys.argv = ["ledger", "--help"]
try:
    main()
except SystemExit:
    pass
heavy = ("numpy", "scipy", "sqlite_utils", "asyncio", "ruamel", "cryptography")
print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.slow
def test_help_imports_only_what_it_needs() -> None:
    """`ledger --help` imports neither numerics nor a database nor an event loop."""
    command = [sys.executable, "-c", HELP_PROGRAM]
    run = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (0, "[]") == (run.returncode, run.stderr.strip())
    assert "Usage" in run.stdout
