"""Runs while CMake builds: keeps what ptxas says, and writes build-info.json. Standard library only.

`record COMMAND...` runs the CUDA compiler and keeps its stderr and the GPU machine code beside the object it makes
(kept by nvcc itself: not every CUDA installation has the cuobjdump that could take it out of the object again).
`write FACTS OUTPUT` joins CMake's facts (lines of key=value), those files and the objects to build-info.json:

    {"build_type", "cxx_compiler", "cxx_compiler_version", "cxx_flags", "isas": {instruction set: its flags},
     "cuda_compiler_version": str | null, "cuda_flags": str | null, "cuda_architectures": [str],
     "kernels": {name: {"code_hash": sha256, "code_bytes": {instruction set: size of the CPU's machine code},
        "ptxas": [{"function", "architecture", "registers",
        "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes"}]}}}

A kernel's code hash covers the machine code and constants of its objects (host code of every instruction set before
linking and the GPU code in it: no addresses, no paths, no debug information), of those that all kernels share, its
Python files, and the flags. So it changes when what runs changes, and stays when a comment in the C++ or the folder of
the build changes.

`write` refuses objects whose code the linker could give to a CPU that cannot run it (see `check_variants`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ELF_64_LITTLE = b"\x7fELF\x02\x01"
SECTION_WITHOUT_BYTES = 8  # SHT_NOBITS
SYMBOL_TABLE = 2  # SHT_SYMTAB
SYMBOL_BYTES = 24
GLOBAL, MERGED = 1, (2, 10)  # STB_GLOBAL; STB_WEAK and STB_GNU_UNIQUE: of several the linker keeps one
HOST_SECTIONS = (".text", ".rodata")
CUDA_SECTIONS = (".text", ".rodata", ".nv.constant")  # instructions, and the constants they name
PTXAS_FUNCTION = re.compile(
    r"Compiling entry function '(?P<function>[^']+)' for '(?P<architecture>[^']+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
PTXAS_SHARED = re.compile(r"(\d+) bytes smem")


class BuildInfoError(Exception):
    """The build produced something that build-info.json cannot be made from."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an ELF file: its kind (SHT_*), where its bytes are, and the index of the section it refers to."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


def _sections(data: bytes) -> list[Section]:
    """Return the sections of a 64-bit little-endian ELF file, by index."""
    if data[:6] != ELF_64_LITTLE:
        raise BuildInfoError(f"not a 64-bit little-endian ELF file: begins with {data[:6]!r}")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQI", data, table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    return [
        Section(_text(data, names + name), kind, offset, size, link)
        for name, kind, _flags, _address, offset, size, link in headers
    ]


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def elf_sections(data: bytes, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of the sections of a 64-bit little-endian ELF file whose names begin with one of `wanted`."""
    for section in _sections(data):
        if section.kind != SECTION_WITHOUT_BYTES and section.name.startswith(wanted):
            yield section.name, data[section.offset : section.offset + section.size]


def elf_symbols(data: bytes, bindings: tuple[int, ...]) -> set[str]:
    """Return the names of the symbols that an ELF object defines with one of these bindings (STB_*)."""
    sections = _sections(data)
    found = set()
    for table in sections:
        if table.kind != SYMBOL_TABLE:
            continue
        for start in range(table.offset, table.offset + table.size, SYMBOL_BYTES):
            name, info, _other, section = struct.unpack_from("<IBBH", data, start)
            if section != 0 and info >> 4 in bindings:
                found.add(_text(data, sections[table.link].offset + name))
    return found


def check_variants(shared: Iterable[Path], by_isa: Sequence[tuple[str, Iterable[Path]]]) -> None:
    """Refuse objects of which the linker could take code for all that only some CPUs can run.

    Of inline functions and instances of templates the linker keeps the first it meets. So whatever of that kind an
    object of a later instruction set defines must be in the objects that come first: those shared by all, and those of
    the first instruction set.

    Args:
        shared: objects of what all instruction sets share. by_isa: instruction sets and their objects, as linked.

    Raises:
        BuildInfoError: a function would be taken from a later one; the message names it and the object.
    """
    (_, first), *later = by_isa
    known: set[str] = set()
    for thing in (*shared, *first):
        known |= elf_symbols(thing.read_bytes(), (GLOBAL, *MERGED))
    for isa, objects in later:
        for thing in objects:
            leaked = sorted(elf_symbols(thing.read_bytes(), MERGED) - known)
            if leaked:
                raise BuildInfoError(
                    f"{thing.parent.name}/{thing.name}: its code for {isa} holds {leaked[0]}, which the linker would "
                    "give to every CPU: put it in an anonymous namespace, or move its use to kernels/_native"
                )


def cubins(thing: Path) -> list[bytes]:
    """Return the GPU machine code that `record` kept for a host object, one ELF file per architecture, in order."""
    found = sorted(kept_folder(thing).glob("*.cubin"))
    if not found:
        raise BuildInfoError(f"{thing}: the CUDA compiler left no cubin in {kept_folder(thing)}")
    return [path.read_bytes() for path in found]


def code_hash(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return the sha256 of named byte strings; lengths are part of it, so that no two lists give the same stream."""
    digest = hashlib.sha256()
    for name, data in parts:
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def ptxas_figures(text: str) -> list[dict[str, str | int]]:
    """Parse the output of `ptxas -v`: one record per function and architecture, sizes in bytes."""
    figures: list[dict[str, str | int]] = []
    for match in PTXAS_FUNCTION.finditer(text):
        shared = PTXAS_SHARED.search(match["rest"])
        figures.append(
            {
                "function": match["function"],
                "architecture": match["architecture"],
                "registers": int(match["registers"]),
                "shared_bytes": int(shared[1]) if shared else 0,
                "stack_bytes": int(match["stack"]),
                "spill_store_bytes": int(match["stores"]),
                "spill_load_bytes": int(match["loads"]),
            }
        )
    return sorted(figures, key=lambda figure: (str(figure["function"]), str(figure["architecture"])))


def describe_kernel(
    folder: Path, objects: Mapping[str, Sequence[Path]], facts: Mapping[str, str], common: Iterable[Path]
) -> dict[str, object]:
    """Return the code hash, sizes and ptxas figures of one kernel.

    Args:
        folder: its source folder. objects: those made from it, by instruction set; CUDA's under "". common: those
            that all kernels share.
    """
    flags = ["cxx_flags", "cuda_flags", *(f"isa_flags_{isa}" for isa in _isas(facts))]
    parts = [(name, facts[name].encode()) for name in flags]
    parts += [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.py"))]
    for thing in common:
        parts += elf_sections(thing.read_bytes(), HOST_SECTIONS)
    code_bytes = dict.fromkeys(objects, 0)
    figures: list[dict[str, str | int]] = []
    for isa, things in objects.items():
        for thing in things:
            sections = list(elf_sections(thing.read_bytes(), HOST_SECTIONS))
            code_bytes[isa] += sum(len(data) for name, data in sections if name.startswith(".text"))
            parts += sections
            if thing.name.endswith(".cu.o"):
                figures += ptxas_figures(ptxas_file(thing).read_text(encoding="utf-8"))
                for cubin in cubins(thing):
                    parts += sorted(elf_sections(cubin, CUDA_SECTIONS))
    code_bytes.pop("", None)  # host code of a .cu is its launcher
    return {"code_hash": code_hash(parts), "code_bytes": code_bytes, "ptxas": figures}


def _isas(facts: Mapping[str, str]) -> list[str]:
    return facts["isas"].split(";")


def _objects(text: str) -> list[Path]:
    return sorted((Path(item) for item in text.split(";")), key=lambda path: path.name)


def build_info(facts: dict[str, str]) -> dict[str, object]:
    """Return the content of build-info.json.

    Raises:
        BuildInfoError: code compiled for one instruction set could be taken for another.
    """
    shared, variants = _objects(facts["objects"]), {isa: _objects(facts[f"objects_{isa}"]) for isa in _isas(facts)}
    check_variants(shared, list(variants.items()))
    by_kernel: dict[str, dict[str, list[Path]]] = {}
    for isa, things in (*variants.items(), ("", shared)):
        for thing in things:
            by_kernel.setdefault(thing.parent.name, {}).setdefault(isa, []).append(thing)
    common = [thing for thing in shared if thing.parent.name.startswith("_")]
    keys = ("build_type", "cxx_compiler", "cxx_compiler_version", "cxx_flags")
    architectures = facts["cuda_architectures"]
    return {
        **{key: facts[key] for key in keys},
        "isas": {isa: facts[f"isa_flags_{isa}"] for isa in variants},
        "cuda_compiler_version": facts["cuda_compiler_version"] or None,
        "cuda_flags": facts["cuda_flags"] or None,
        "cuda_architectures": architectures.split(";") if architectures else [],
        "kernels": {
            name: describe_kernel(Path(facts["source_folder"], "kernels", name), files, facts, common)
            for name, files in sorted(by_kernel.items())
            if not name.startswith("_")
        },
    }


def ptxas_file(thing: Path) -> Path:
    """Return where `record` keeps what the compiler said about an object."""
    return thing.with_name(thing.name + ".ptxas.txt")


def kept_folder(thing: Path) -> Path:
    """Return the folder in which `record` lets the CUDA compiler keep the machine code of an object."""
    return thing.with_name(thing.name + ".keep")


def record(command: list[str]) -> int:
    """Run nvcc so that cubins and ptxas figures stay beside the object named by `-o`. Returns its exit code."""
    thing = Path(command[command.index("-o") + 1])
    shutil.rmtree(kept_folder(thing), ignore_errors=True)  # cubins of an architecture no longer asked for
    kept_folder(thing).mkdir(parents=True)
    keep = ["--keep", "--keep-dir", str(kept_folder(thing))]
    done = subprocess.run([*command, *keep], stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    ptxas_file(thing).write_text(done.stderr, encoding="utf-8")
    return done.returncode


def write(facts_file: Path, output: Path) -> None:
    """Write build-info.json from CMake's facts."""
    lines = facts_file.read_text(encoding="utf-8").splitlines()
    facts = dict(line.split("=", 1) for line in lines)
    temporary = output.with_name(output.name + ".new")
    temporary.write_text(json.dumps(build_info(facts), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(output)


def main(arguments: list[str]) -> int:
    """Run `record COMMAND...` or `write FACTS OUTPUT`; returns the exit code."""
    if arguments[:1] == ["record"]:
        return record(arguments[1:])
    try:
        write(Path(arguments[1]), Path(arguments[2]))
    except BuildInfoError as error:
        sys.stderr.write(f"write_build_info: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
