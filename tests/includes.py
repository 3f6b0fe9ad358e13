#!/usr/bin/env python3
"""Who may see what, as DESIGN.md sections 3 and 10 have it: includes point one way, heavy libraries stay in few files.

Checks every source file of the project with all that it includes, directly or through the project's own headers.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["config", "models", "runtime", "actors", "deploy"]  # each may include itself and what stands to its left
LIBRARIES = {
    "ATen": re.compile(r"(ATen|c10|torch)/"),
    "CAF": re.compile(r"caf/"),
    "Beast": re.compile(r"boost/(beast|asio)"),
    "CLI11": re.compile(r"CLI/"),
}
HOMES = {  # the only folders where a file may see the library
    "ATen": ("models", "tests/models", "tests/torch_doctest.hpp"),
    "CAF": ("actors", "deploy", "tests/actors"),
    "Beast": ("runtime",),
    "CLI11": ("deploy",),
}
MOST_FILES = {"Beast": 4, "CLI11": 1}  # to compile; a header costs its time where it is included
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def read_includes():
    """{file: names it includes}, both relative to the project's root."""
    files = [path for folder in [*LAYERS, "tests"] for path in (ROOT / folder).rglob("*.[ch]pp")]
    return {str(path.relative_to(ROOT)): INCLUDE.findall(path.read_text(encoding="utf-8")) for path in sorted(files)}


def resolve(name, file, includes):
    """The project's own file that is meant, or None: from the root, or beside the including file."""
    beside = str((Path(file).parent / name).as_posix())
    return name if name in includes else beside if beside in includes else None


def libraries_seen(file, includes):
    """Heavy libraries that `file` sees, with the file that includes them."""
    seen, visited, waiting = {}, {file}, [file]
    while waiting:
        current = waiting.pop()
        for name in includes[current]:
            own = resolve(name, current, includes)
            if own and own not in visited:
                visited.add(own)
                waiting.append(own)
            for library, pattern in LIBRARIES.items():
                if not own and pattern.match(name):
                    seen.setdefault(library, current)
    return seen


def inside(file, folder):
    return file == folder or file.startswith(folder + "/")


def layer(file):
    """Place in the one-way order; models/text stands before the rest of models. None: tests may include anything."""
    top = file.split("/")[0]
    if top not in LAYERS:
        return None
    return LAYERS.index(top) - (0.5 if inside(file, "models/text") else 0)


def faults(includes):
    for file, names in includes.items():
        for name in names:
            own = resolve(name, file, includes)
            if own and layer(file) is not None and (layer(own) is None or layer(own) > layer(file)):
                yield f"{file} includes {own}, which stands above it ({' <- '.join(LAYERS)})"
            if name == "torch/torch.h":
                yield f"{file} includes torch/torch.h, which takes 23 seconds to compile: use ATen/ATen.h"

    seers = {library: [] for library in LIBRARIES}
    for file in includes:
        seen = libraries_seen(file, includes)
        for library, through in seen.items():
            if file.endswith(".cpp"):
                seers[library].append(file)
            if not any(inside(file, home) for home in HOMES[library]):
                yield f"{file} sees {library} (through {through}), which belongs into {', '.join(HOMES[library])}"
        if len(seen.keys() & {"ATen", "CAF", "Beast"}) > 1:
            yield f"{file} sees {' and '.join(sorted(seen))}: keep them in separate files"
    for library, most in MOST_FILES.items():
        if len(seers[library]) > most:
            yield f"{len(seers[library])} files see {library}, at most {most} may: {', '.join(seers[library])}"


if __name__ == "__main__":
    includes = read_includes()
    found = list(faults(includes))
    print("\n".join(found) or f"includes of {len(includes)} files are as they should be")
    sys.exit(bool(found))
