"""Users' Python files: loads a file, or a module, with the files beside it that it imports, and
keeps the loaded bytes.

Digests are taken of the executed bytes. A file beside wins over an installed module of its name,
and two lakes may have files of one name in one process: the files form a package named by their
content, where their `import` statements look first, and `sys.path` stays. These statements, also
those inside functions, say which files are reached; a file that no statement names cannot be
imported. A module of a package (`MODULE:NAME`) is imported by Python, after its files were read,
and refused if they have changed since. Not here: the tables (`chosen`) and digests
(`kernel.write.code`).
"""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, resolve_name, spec_from_file_location
from pathlib import Path
from sys import modules
from types import ModuleType

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.write.code import START_AGAIN, SourceFile

# The name of a module in the package, by its parts; () is the folder itself.
Parts = tuple[str, ...]
Sources = tuple[tuple[Parts, Path, bytes], ...]
Find = Callable[[Parts], tuple[Path, bytes] | None]
INIT = "__init__.py"
# Never taken from beside: a lake may lie in a checkout of this product.
OWN_PACKAGE = __name__.split(".")[0]
PREFIX = "lake_pipeline_"
KEPT = "__loaded_files__"  # of a module: the files that it reaches, with the bytes that were loaded


def reached_paths(path: Path) -> tuple[Path, ...]:
    """The file and all files beside it that it imports, directly or through others, as real paths,
    itself first. Raises OSError and SyntaxError."""
    return tuple(file for _, file, _ in _reached_sources(path.resolve()))


def reached_files(module: ModuleType) -> tuple[SourceFile, ...] | None:
    """The loaded files that a module reaches, itself first; None for a module of this product or
    without a Python file.

    Of an imported module these are files of its own top-level package, with their content at the
    first call.
    """
    parts = tuple(module.__name__.split("."))
    path = Path(module.__file__ or "")
    if path.suffix != ".py" or parts[0] == OWN_PACKAGE:
        return None
    if parts[0].startswith(PREFIX):
        kept = {parts: (file, content) for parts, file, content in vars(modules[parts[0]])[KEPT]}
        return _source_files(_walk_imports(parts[1:], kept.get))
    if KEPT not in vars(module):
        found = _package_sources(parts, path) if path.is_file() else None
        if found is None:
            return None
        vars(module)[KEPT] = found
    return _source_files(vars(module)[KEPT])


def imported_module(name: str) -> ModuleType:
    """Read the files of the module `name`, then import it. Raises SettingsError for a file that has
    changed since."""
    parts = tuple(name.split("."))
    for count in range(1, len(parts) + 1):
        dotted = ".".join(parts[:count])
        read = None if dotted in modules else _files_to_import(dotted)
        import_module(dotted)
        _keep_sources(read or ())
    files = reached_files(modules[name]) or ()
    changed = [str(file.path) for file in files if file.has_moved]
    if changed:
        raise SettingsError(
            f"the pipeline module {name}",
            f"{', '.join(changed[:3])} changed after this process had imported it",
            "Nothing of the new code was run",
            START_AGAIN,
        )
    return modules[name]


def _files_to_import(name: str) -> Sources | None:
    """The files that a module reaches that is not imported yet; None for one without a Python
    file."""
    spec = find_spec(name)
    path = Path(spec.origin or "") if spec is not None else Path()
    is_python = path.suffix == ".py" and path.is_file()
    return _package_sources(tuple(name.split(".")), path) if is_python else None


def _keep_sources(sources: Sources) -> None:
    """Store with each of these modules that is imported by now the files that it reaches, as they
    were read."""
    contents = {parts: (file, content) for parts, file, content in sources}
    for parts in contents:
        module = modules.get(".".join(parts))
        if module is not None:
            above = [parts[:n] for n in range(1, len(parts))]
            vars(module).setdefault(KEPT, _walk_imports(parts, contents.get, above, parts[0]))


def loaded_module(path: Path) -> ModuleType:
    """Load the file as a module; again if it, or a file that it reaches, has changed. Raises
    OSError."""
    resolved = path.resolve()
    return _load_sources(resolved, _reached_sources(resolved))


@lru_cache(maxsize=16)
def _load_sources(path: Path, sources: Sources) -> ModuleType:
    """Load the file at `path`, the first of `sources`, as a module of a package of all of them,
    named by their content. What was loaded of it goes if it fails."""
    digests = "".join(f"{file} {sha256(source).hexdigest()}\n" for _, file, source in sources)
    package = ModuleType(PREFIX + sha256(digests.encode()).hexdigest()[:12])
    vars(package)[KEPT] = sources
    own_parts = sources[0][0]
    # The folder in which the names of modules begin: above the file's own packages.
    package.__path__ = [str(path.parents[len(own_parts) - (path.name != INIT)])]
    files = _LakeFiles(package.__name__, {parts: (file, source) for parts, file, source in sources})
    # Where `inspect` looks for the source of functions, and relative imports start.
    modules[package.__name__] = package
    try:
        return files.module(own_parts)
    except BaseException:
        of_package = [name for name in modules if name.split(".")[0] == package.__name__]
        for name in of_package:
            del modules[name]
        raise


@dataclass(frozen=True)
class _LakeFiles:
    """The files of one package, by the parts of their names."""

    package: str
    files: Mapping[Parts, tuple[Path, bytes]]

    def module(self, parts: Parts) -> ModuleType:
        """Load the module of these parts, after its parents. Raises ModuleNotFoundError."""
        name = ".".join((self.package, *parts))
        if name in modules:
            return modules[name]
        parent = self.module(parts[:-1])
        if parts not in self.files:
            raise ModuleNotFoundError(f"No module named {'.'.join(parts)!r}", name=".".join(parts))
        path, source = self.files[parts]
        within = [str(path.parent)] if path.name == INIT else None
        spec = spec_from_file_location(name, path, submodule_search_locations=within)
        if spec is None:
            raise ImportError(f"{path} is no Python file")
        created = modules[name] = module_from_spec(spec)
        created.__dict__["__builtins__"] = {**vars(builtins), "__import__": self.imported}
        try:
            exec(compile(source, str(path), "exec"), created.__dict__)  # noqa: S102  # the lake's owner wrote it to be run
        except BaseException:
            del modules[name]
            raise
        setattr(parent, parts[-1], created)
        return created

    def imported(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import from these files, else from the installed modules; the signature is
        `__import__`'s."""
        if level:
            within = str((globals or {}).get("__package__") or self.package)
            parts = tuple(resolve_name("." * level + name, within).split("."))[1:]
        else:
            parts = tuple(name.split("."))
            if parts[:1] not in self.files:
                return __import__(name, globals, locals, fromlist or (), level)
        module = self.module(parts)
        for part in fromlist or ():
            if not hasattr(module, part) and (*parts, part) in self.files:
                self.module((*parts, part))
        return module if fromlist else self.module(parts[:1])


def _reached_sources(path: Path) -> Sources:
    """The files that `path` reaches within its folder, itself first, each with its parts and
    present content."""
    folder = path.parent.parent if path.name == INIT else path.parent
    own = _module_parts(path, folder)
    return _walk_imports(own, partial(_read_from_disk, folder, {own: path}))


def _package_sources(parts: Parts, path: Path) -> Sources | None:
    """The files that a module reaches within its package, with its parents; None for a module run
    as a script."""
    depth = len(parts) - (path.name != INIT)
    if depth >= len(path.parents) or _module_parts(path, path.parents[depth]) != parts:
        return None
    above = [parts[:n] for n in range(1, len(parts))]
    return _walk_imports(
        parts, partial(_read_from_disk, path.parents[depth], {parts: path}), above, parts[0]
    )


def _read_from_disk(
    folder: Path, known: Mapping[Parts, Path], parts: Parts
) -> tuple[Path, bytes] | None:
    """The file of a module below `folder`, or the `known` one, and its present content; None
    without a file."""
    file = known.get(parts) or _module_file(folder, parts)
    return None if file is None else (file, file.read_bytes())


def _walk_imports(
    own: Parts, find: Find, above: Sequence[Parts] = (), package: str | None = None
) -> Sources:
    """The files that `own` reaches (only of `package`, if given), itself first, then the files that
    `above` reach; `find` returns the file and content of a module by its parts, or None."""
    todo = [*above, own]
    done: dict[Parts, tuple[Path, bytes]] = {}
    while todo:
        parts = todo.pop()
        found = find(parts) if parts not in done else None
        if found is None:
            continue
        file, content = done[parts] = found
        within = parts if file.name == INIT else parts[:-1]
        for named in _imported_parts(content, str(file), within):
            is_within = not package or named[:1] == (package,)
            if is_within:
                todo += [named[: n + 1] for n in range(len(named))]
    return tuple((parts, *found) for parts, found in done.items())


def _source_files(sources: Sources) -> tuple[SourceFile, ...]:
    """The files as sources of a table's code."""
    return tuple(SourceFile(file, content) for _, file, content in sources)


def _module_parts(path: Path, folder: Path) -> Parts:
    """The parts of the name that the module of a file has below `folder`."""
    parts = path.relative_to(folder).with_suffix("").parts
    return parts[:-1] if path.name == INIT else parts


def _module_file(folder: Path, parts: Parts) -> Path | None:
    """The file of a module, or None; a package comes before a plain module, as in Python."""
    if not parts or parts[0] == OWN_PACKAGE:
        return None
    named = folder.joinpath(*parts)
    for file in (named / INIT, named.with_name(f"{named.name}.py")):
        if file.is_file():
            return file
    return None


@lru_cache(maxsize=256)
def _imported_parts(source: bytes, file: str, within: Parts) -> tuple[Parts, ...]:
    """The dotted names that the statements of a file may import, as absolute names below the
    folder."""
    names = dict[Parts, None]()
    for node in ast.walk(ast.parse(source, file)):
        names |= dict.fromkeys(_imported_names(node, within))
    return tuple(names)


def _imported_names(node: ast.AST, within: Parts) -> Iterator[Parts]:
    """The names that an import statement in the package `within` may import, as absolute ones; of
    `from a import b` a.b, which need not be a module. None of another statement."""
    if isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        named = tuple(node.module.split(".")) if node.module else ()
        above = within[: len(within) - node.level + 1] if node.level else ()
        yield from ((*above, *named, alias.name) for alias in node.names)
