"""What the disk is asked to do, as strace saw it -> what a power loss could take at each commit.

The rules: a name is given by `rename`, and a transaction ends (its journal is truncated), only when all that was
written below the root is on disk, files and the folders that name them; and a writer says "acknowledged" only when the
rename, or the end of the journal, is on disk too.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CALLS = (
    "openat,creat,write,pwrite64,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,"
    "unlink,unlinkat"
)
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (-?\d+)(?:<(.*)>)?")
_HANDLE = re.compile(r"^\d+<([^>]*)>")
_NAMELESS = re.compile(r"/#\d+|\(deleted\)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def trace(code: str, folder: Path) -> list[str]:
    """Run Python `code` with the path `folder` as its argument under strace and return the calls of all threads."""
    log = folder.parent / f"{folder.name}.strace"
    command = [shutil.which("strace"), "-f", "-y", "-s", "32", "-e", f"trace={CALLS}", "-o", str(log)]
    done = subprocess.run([*command, sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith("acknowledged"), done.stdout
    return log.read_text(errors="replace").splitlines()


def at_risk(lines: list[str], root: Path) -> list[str]:
    """Return one sentence for everything below `root` that a power loss could take after it was committed."""
    files: set[str] = set()  # written, not synced
    names: dict[str, str] = {}  # a new name -> the folder that must be synced for it
    known: set[str] = set()  # opened before, so that opening it again does not make it
    found: list[str] = []
    n_commits = 0

    def is_ours(path: str) -> bool:
        return path.startswith(f"{root}/") or path == str(root)

    def created(path: str) -> None:
        if is_ours(path):
            names[path] = str(Path(path).parent)

    def pending(but: tuple[str, ...] = ()) -> list[str]:
        left = [f"the content of {path}" for path in sorted(files) if path not in but]
        # The name of a draft may vanish, its next name is given once its content is synced; what is replaced too.
        return left + [
            f"the name {path}" for path in sorted(names) if path not in but and not path.endswith((".draft", ".old"))
        ]

    for line in lines:
        match = _CALL.match(line)
        if not match or int(match[3]) < 0:
            continue
        call, arguments, _, opened = match.groups()
        quoted = _QUOTED.findall(arguments)
        handle = _HANDLE.match(arguments)
        if _NAMELESS.search(opened or (handle[1] if handle else "")):
            continue
        if call in ("openat", "creat") and opened and ("O_CREAT" in arguments or call == "creat"):
            if is_ours(opened) and opened not in known:
                known.add(opened)
                files.add(opened)
                created(opened)
        elif call == "unlink":
            known.discard(quoted[0])
            files.discard(quoted[0])
            names.pop(quoted[0], None)
        elif call == "ftruncate" and handle and handle[1].endswith("-journal") and is_ours(handle[1]):
            n_commits += 1
            found += [f"{what}, when a transaction ended" for what in pending(but=(handle[1],))]
            files.add(handle[1])
        elif call in ("write", "pwrite64", "writev", "ftruncate") and handle:
            if "acknowledged" in arguments and not is_ours(handle[1]):
                found += [f"{what}, when the writer acknowledged" for what in pending()]
            elif is_ours(handle[1]) and not (call == "ftruncate" and handle[1].endswith(".db")):
                files.add(handle[1])  # where a database ends is written in its first page
        elif call in ("fsync", "fdatasync") and handle:
            files.discard(handle[1])
            names = {path: parent for path, parent in names.items() if parent != handle[1]}
        elif call.startswith("mkdir"):
            created(quoted[0])
        elif call.startswith("link"):
            if quoted[0] in files or quoted[0] not in known:  # nobody knows whether its content was ever synced
                files.add(quoted[1])
            created(quoted[1])
        elif call.startswith("rename") and is_ours(quoted[1]):
            n_commits += 1
            source, target = quoted
            found += [f"{what}, when {target} was committed" for what in pending(but=(source,))]
            if source in files:
                found.append(f"the content of {source}, when it became {target}")
            files.discard(source)
            moved = {path: parent for path, parent in names.items() if path == source or path.startswith(f"{source}/")}
            names = {path: parent for path, parent in names.items() if path not in moved}
            created(target)
    assert n_commits or any("acknowledged" in line for line in lines), "nothing was seen"
    return found
