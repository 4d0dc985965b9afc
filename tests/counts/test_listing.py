"""Machine code as text without addresses: written, compared, stored, and recorded with a commit."""

import lzma
import random
import re
import shutil
import subprocess
import sys

import pytest

from kernel_velocity.counts import listing
from kernel_velocity.counts.elf import Elf
from kernel_velocity.counts.listing import Instruction
from kernel_velocity.site.pages import machine_code
from tests.counts.counting import COUNTS, DEFINITION, compiled, repository_of

SOURCE = """
static __attribute__((noinline)) void inner(float *a, long n) { for (long i = 0; i < n; i++) a[i] = 2 * a[i] + 1; }
void unused(void) {}
void kern(float *a, long n) { inner(a, n); a[0] = 0; }
"""
OBJDUMP = pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump")


def of_kernel(folder, before=""):
    library = compiled(folder, before + SOURCE)
    elf = Elf(library.read_bytes())
    return listing.executed(library, [elf.find("kern"), *elf.function_starts & {elf.find("inner")}])


@OBJDUMP
def test_listing_has_functions_labels_and_no_addresses(tmp_path):
    text = of_kernel(tmp_path / "a")
    assert re.findall(r"^(\S+):$", text, re.MULTILINE) == ["inner", "kern"]
    labels = re.findall(r"^(L\d+): ", text, re.MULTILINE)
    assert labels and all(re.search(rf" {label}$", text, re.MULTILINE) for label in labels)
    assert re.search(r"(call|bl) inner$", text, re.MULTILINE) and "nop" not in text
    elsewhere = "int before(int x) { return 3 * x + 1; } const char text[99] = {1};"
    assert of_kernel(tmp_path / "b", elsewhere) == text


@OBJDUMP
def test_functions_of_a_stripped_library_have_no_name(tmp_path):
    named = of_kernel(tmp_path)
    library = tmp_path / "libsmall.so"
    addresses = [Elf(library.read_bytes()).find("inner")]
    subprocess.run(["strip", str(library)], check=True)
    text = listing.executed(library, addresses)
    assert text.startswith("function:\n") and text.partition("\n")[2] in named


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("FFMA R1,R2,R3,R1", "FFMA R9,R20,R3,R9"),
        ("@!P0 STG.E.128 desc[UR6][R16.64],R12", "@!P2 STG.E.128 desc[UR4][R2.64],R8"),
        ("vfmadd231ps ymm0,ymm1,YMMWORD PTR [rax+r12*4]", "vfmadd231ps ymm9,ymm1,YMMWORD PTR [rdi+rcx*4]"),
        ("mov QWORD PTR [rsp+0x1a8],rsi", "mov QWORD PTR [rsp+0x138],r9"),
        ("L12:    jle L1", "L3:     jle L22"),
        ("fmla v0.4s, v1.4s, v2.s[0]", "fmla v30.4s, v1.4s, v2.s[0]"),
        (
            "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]",
            "v_mfma_f32_32x32x8_f16 a[16:31], v[6:7], v[4:5], a[16:31]",
        ),
    ],
)
def test_other_registers_labels_and_places_are_alike(line, other):
    assert listing.alike(line) == listing.alike(other)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("FFMA R1,R2,R3,R1", "FFMA R1,R2,0x3,R1"),
        ("LDG.E.128 R4,[R2.64]", "LDG.E R4,[R2.64]"),
        ("vaddps ymm0,ymm1,ymm2", "vaddps xmm0,xmm1,xmm2"),
        ("mov rax,QWORD PTR [rdi+0x10]", "mov rax,QWORD PTR [rdi+0x18]"),
        ("mov eax,esi", "mov rax,rsi"),
        ("sub rsp,0x3e0", "sub rsp,0x360"),
    ],
)
def test_other_operations_widths_and_constants_differ(line, other):
    assert listing.alike(line) != listing.alike(other)


def rows(before, after):
    return [*machine_code.compared(*("".join(f"{line}\n" for line in lines) for lines in (before, after)))]


def test_both_sides_can_be_read_from_a_comparison():
    """Of random edits: every line of both sides, in order, is in a row or counted by a fold."""
    draw = random.Random(1)
    for _ in range(20):
        before = [draw.choice(["a", "b", "c", "\0", "d\r", "e\u2028f", "g\x0b"]) for _ in range(draw.randrange(60))]
        after = [line for line in before if draw.random() > 0.1]
        for _ in range(draw.randrange(5)):
            after.insert(draw.randrange(len(after) + 1), "new")
        made, sides = rows(before, after), ([], [])
        assert bool(made) == (before != after)
        for row in made:
            if row.kind == "fold":
                count = int(row.before.split()[0])
                sides[0].extend(before[len(sides[0]) :][:count])
                sides[1].extend(after[len(sides[1]) :][:count])
                continue
            assert row.kind != "equal" or row.before == row.after
            sides[0].extend(filter(None, [row.before]))
            sides[1].extend(filter(None, [row.after]))
        assert not made or sides == (before, after)


def test_equal_lines_are_folded_to_the_function_that_goes_on():
    before = ["a:", *("x" for _ in range(20)), "b:", *("y" for _ in range(9)), "old", "z", *("w" for _ in range(6))]
    made = rows(before, [{"old": "new"}.get(line, line) for line in before])
    assert [row.before for row in made if row.kind == "fold"] == ["28 equal lines, then in b", "4 equal lines"]
    assert [row[1:] for row in made if row.kind == "changed"] == [("old", "new")]


def test_damaged_listing_is_none(tmp_path, monkeypatch):
    text = listing.written("kernel", [Instruction(0, "ret")])
    digest = listing.store(text, tmp_path / "code")
    assert listing.read(tmp_path / "code", digest) == text
    file = listing.path(tmp_path / "code", digest)
    for content in (b"", b"no xz", lzma.compress(b"another text"), file.read_bytes()[:-60]):
        file.write_bytes(content)
        assert listing.read(tmp_path / "code", digest) is None
    for other in (f"../code/{digest}", digest, "x" * 300, "\0"):
        assert not listing.is_stored(tmp_path, other) and listing.read(tmp_path, other) is None
    monkeypatch.setattr(listing, "MOST_BYTES", 100)
    large = listing.store("x\n" * 200, tmp_path)
    assert listing.read(tmp_path, large) is None


@COUNTS
@OBJDUMP
@pytest.mark.slow
def test_code_that_a_commit_changed_is_on_its_page(tmp_path):
    pytest.importorskip("torch", reason="inputs and references are PyTorch's")
    first = (
        "int scale(float *out, const float *x, int n) { for (int i = 0; i < n; i++) out[i] = 2 * x[i]; return 0; }\n"
    )
    second = first.replace("2 * x[i]", "x[i] + 0.5f * x[i] * 2")
    texts = ("", first, second)
    build = "gcc -O2 -shared -fPIC -o {out}/libscale.so scale.c"
    folder = repository_of(tmp_path, build, "scale.c", texts, {"scale": DEFINITION.format(name="scale")})
    options = ("--range", "HEAD~2..HEAD", "--all", "--rounds", "1", "--no-ceilings", "--bench", "scale")
    command = [sys.executable, "-m", "kernel_velocity", "track", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = folder.glob("html/kernel-velocity/code-*.html")
    assert "scale native float32-1k" in page.read_text() and 'class="more"' in page.read_text()
    commit = page.with_name(page.name.replace("code-", "commit-")).read_text()
    assert f'href="{page.name}"' in commit and 'class="more"' in commit
    assert len([*folder.glob("results/*/code/*.txt.xz")]) == 2
