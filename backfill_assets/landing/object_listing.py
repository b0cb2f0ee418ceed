"""The objects below a prefix of a bucket that `[source] files` offers for reading, and a reason for each other object.

Not here: the pattern and the rules of names (`listing`), and reading the objects (`files`).
"""

from backfill_assets.core.place import Place, Token
from backfill_assets.core.texts import plain
from backfill_assets.landing.declared import FOLDER, TOTALS_SUFFIX
from backfill_assets.landing.files import LandedFile, landed_object
from backfill_assets.landing.listing import EXTENSIONS, Glob, Listing, RefusedFile, bad_name, is_manifest, unfit


def list_objects(glob: Glob, root: Place, format: str) -> Listing:
    """List the objects that a parsed pattern offers for reading; `root` is its fixed root.

    Every other object below the root is refused with a reason, all of a folder at once where `list_landing` does not
    enter one. A pattern without wildcard ignores the object's neighbours. One request per thousand objects.
    """
    refused, files, manifests = dict[str, str](), list[LandedFile](), list[LandedFile]()
    tokens = _named(glob, root) if glob.names_file else root.tokens()
    for name, token in sorted(tokens.items()):
        if not token.size and "." not in name.rpartition("/")[2]:
            continue  # some programs put an empty object in place of a folder
        not_read, why = _not_entered(name, glob) or (name, _unfit(name, token, glob, format))
        if why is not None:
            refused[plain(not_read)] = why
        else:
            (manifests if is_manifest(name) else files).append(landed_object(root, name, token))
    others = tuple(RefusedFile(name, why) for name, why in refused.items())
    return Listing(tuple(files), others, not tokens and not glob.names_file, tuple(manifests))


def _named(glob: Glob, root: Place) -> dict[str, Token]:
    (name,) = glob.segments
    found = {n: root.token(n) for n in (name, name + TOTALS_SUFFIX, FOLDER)}
    return {n: token for n, token in found.items() if token is not None}


def _not_entered(name: str, glob: Glob) -> tuple[str, str] | None:
    """The first folder in an object's name that is not entered, and why; None if all are."""
    *folders, _ = name.split("/")
    for depth, folder in enumerate(folders, 1):
        why = bad_name(folder)
        if why is None and not glob.reaches(depth):
            why = "a folder that the pattern does not reach into (** reaches into all)"
        if why is not None:
            return "/".join(folders[:depth]) + "/", why
    return None


def _unfit(name: str, token: Token, glob: Glob, format: str) -> str | None:
    last = name.rpartition("/")[2]
    why = None if last == FOLDER else bad_name(last)
    return why or unfit(name, token.size, glob, EXTENSIONS[format])
