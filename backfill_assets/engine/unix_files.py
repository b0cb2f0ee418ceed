"""The server's class for local files: Hadoop's own, without a `chmod` forked for each file and folder it makes.

Lives here: that class, written down as Java would compile it, and the jar that holds it. Does not live here: which
class a server is told to use (`confs`, `jvm`). Hadoop asks for the rights of a new file by running a program, unless a
native library of its own is there, which Spark does not bring: three forks for each day folder of a write, a twentieth
of the CPU of a long range (facts: delta). The kernel gives new files the same rights by itself, because a server is
started with the umask of its lake.

The class is so small that it needs no compiler, and no binary in the checkout:

    public class UnixFiles extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) {}
    }
"""

import io
import os
import struct
import tempfile
import zipfile
from pathlib import Path

from backfill_assets.core.disk import publish
from backfill_assets.engine.cache import cache_folder
from backfill_assets.engine.confs import UNIX_FILES

_PARENT = "org/apache/hadoop/fs/RawLocalFileSystem"
_TAKES = "(Lorg/apache/hadoop/fs/Path;Lorg/apache/hadoop/fs/permission/FsPermission;)V"
_JAVA_8 = 52
_PUBLIC, _CALLS_ITS_PARENT = 0x0001, 0x0020
_UTF8, _CLASS, _METHOD, _NAME_AND_TYPE = 1, 7, 10, 12
_RETURN = b"\xb1"
_MADE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


def files_jar(otherwise: Path) -> Path:
    """The jar with the class, in the user's cache, or in the folder `otherwise` where that cannot be written. What lies
    there under its name and is not it is replaced."""
    try:
        return _placed(cache_folder() / "jars")
    except OSError:
        return _placed(otherwise)


def _placed(folder: Path) -> Path:
    wanted, path = _jar(), folder / "unix-files.jar"
    if path.is_file() and path.read_bytes() == wanted:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=folder, prefix=".unix-files-")
    with os.fdopen(handle, "wb") as file:
        file.write(wanted)
    publish(Path(fresh), path)
    return path


def _jar() -> bytes:
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr(zipfile.ZipInfo(f"{UNIX_FILES.replace('.', '/')}.class", _MADE), _class())
    return jar.getvalue()


def _class() -> bytes:
    """The class file: its constants, itself and its parent, and two methods. Numbers are big-endian, as Java's are."""
    names = (UNIX_FILES.replace(".", "/"), _PARENT, "<init>", "()V", "setPermission", _TAKES, "Code")
    this, parent, init, plain, asked, takes, code = range(1, len(names) + 1)
    this_class, parent_class, its_init, call = range(len(names) + 1, len(names) + 5)
    constants = [struct.pack(">BH", _UTF8, len(n)) + n.encode() for n in names]
    constants += [struct.pack(">BH", _CLASS, this), struct.pack(">BH", _CLASS, parent)]
    constants += [struct.pack(">BHH", _NAME_AND_TYPE, init, plain)]
    constants += [struct.pack(">BHH", _METHOD, parent_class, its_init)]
    load_this_call_parent = b"\x2a\xb7" + struct.pack(">H", call)
    return b"".join([
        struct.pack(">IHH", 0xCAFEBABE, 0, _JAVA_8),
        struct.pack(">H", len(constants) + 1), *constants,
        struct.pack(">HHH", _PUBLIC | _CALLS_ITS_PARENT, this_class, parent_class),
        struct.pack(">HHH", 0, 0, 2),  # no interfaces, no fields, two methods
        _method(init, plain, code, load_this_call_parent + _RETURN, 1),
        _method(asked, takes, code, _RETURN, 3),
        struct.pack(">H", 0),
    ])  # fmt: skip


def _method(name: int, type: int, code: int, instructions: bytes, arguments: int) -> bytes:
    """A public method; `arguments` with itself."""
    body = struct.pack(">HHI", 1, arguments, len(instructions)) + instructions + struct.pack(">HH", 0, 0)
    return struct.pack(">HHHHHI", _PUBLIC, name, type, 1, code, len(body)) + body
