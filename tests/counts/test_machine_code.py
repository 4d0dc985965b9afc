"""Classes of instructions, innermost loops and padding."""

import pytest

from kernel_velocity.counts import amd_code, machine_code
from kernel_velocity.counts.machine_code import CLASSES, class_of
from kernel_velocity.names import MIX


def test_every_class_has_a_series():
    assert {f"{name}_instructions" for name in CLASSES} | {"loop_instructions"} == set(MIX)


@pytest.mark.parametrize(
    ("kind", "opcodes"),
    [
        ("tensor", "HMMA.16816.F32 IMMA.16832.S8.S8 DMMA.8x8x4 QMMA.16832.F32 OMMA.SF HGMMA.64x128x16.F32 UTCHMMA"),
        ("float64", "DADD DFMA DMUL DSETP.GT.AND"),
        ("float32", "FADD FFMA FFMA2 FMUL FMNMX FSETP.GEU.AND FSEL UFADD FCHK"),
        ("float16", "HADD2.BF16_V2 HFMA2 HMUL2.BF16 HSETP2.GT.AND"),
        (
            "integer",
            "IADD3 IMAD.WIDE.U32 LEA.HI.X LOP3.LUT SHF.R.U32.HI UIADD3 ISETP.GE.AND VIADD PRMT POPC USHF.L.U32",
        ),
        ("conversion", "F2F.F64.F32 F2I.TRUNC.NTZ I2F.RP I2FP.F32.S32 F2FP.BF16.F32.PACK_AB FRND.FLOOR"),
        ("special", "MUFU.EX2 MUFU.RCP"),
        ("local", "LDL.64 STL"),
        ("shared", "LDS.128 STS.U8 LDSM.16.M88.4 STSM.16.M88.4 ATOMS.ADD"),
        ("async", "LDGSTS.E.BYPASS.128 LDGDEPBAR UTMALDG.2D UTMASTG.2D UBLKCP LDTM.x32 UTCCP.T.S.4x32dp128bit"),
        ("global", "LDG.E.128.CONSTANT STG.E ATOMG.E.ADD RED.E.ADD LD.E ST.E.64"),
        ("barrier", "BAR.SYNC.DEFER_BLOCKING DEPBAR.LE SYNCS.PHASECHK.TRANS64 MEMBAR.SC.GPU WARPGROUP.ARRIVE UTCBAR"),
        ("branch", "BRA BRA.U BRX EXIT CALL.REL.NOINC RET.REL.NODEC BSSY BSYNC"),
        ("other", "MOV S2R LDC ULDC.64 SHFL.DOWN VOTE.ANY R2UR CS2R PLOP3.LUT IMAD.MOV.U32 SOMETHING.NEW"),
    ],
)
def test_classes_of_nvidia(kind, opcodes):
    assert {opcode: class_of(opcode) for opcode in opcodes.split()} == dict.fromkeys(opcodes.split(), kind)


def test_constant_is_no_arithmetic():
    assert class_of("HFMA2.MMA", "R4,-RZ,RZ,0,2.38e-07") == class_of("HFMA2", "R4,-RZ,RZ,0,0") == "other"
    assert class_of("HFMA2", "R4,R5,RZ,R6") == "float16"


@pytest.mark.parametrize(
    ("kind", "opcodes"),
    [
        ("tensor", "v_mfma_f32_32x32x8_f16 v_wmma_f32_16x16x16_f16 v_swmmac_f32_16x16x32_f16"),
        ("float64", "v_fma_f64 v_add_f64"),
        ("float32", "v_fma_f32 v_pk_mul_f32 v_max_f32_e32"),
        ("float16", "v_pk_add_f16 v_fma_f16"),
        ("integer", "v_add_u32_e32 s_add_u32 v_lshlrev_b32_e32 v_cmp_lt_i32_e32 v_mul_lo_u32"),
        ("conversion", "v_cvt_f32_f16_e32 v_cvt_pk_bf16_f32"),
        ("special", "v_exp_f32_e32 v_rcp_f32_e32 v_sqrt_f32_e32"),
        ("local", "scratch_load_dword scratch_store_dwordx4"),
        ("shared", "ds_read_b128 ds_write_b64"),
        ("async", "global_load_lds_dwordx4"),
        ("global", "global_load_dwordx4 buffer_store_dword s_load_dwordx2 flat_load_dword"),
        ("barrier", "s_barrier s_waitcnt s_wait_loadcnt"),
        ("branch", "s_cbranch_scc1 s_branch s_endpgm"),
        ("other", "v_mov_b32_e32 v_accvgpr_read_b32 v_cndmask_b32_e32 v_readfirstlane_b32"),
    ],
)
def test_classes_of_amd(kind, opcodes):
    assert {name: amd_code.class_of(name) for name in opcodes.split()} == dict.fromkeys(opcodes.split(), kind)


def test_instructions_of_nvdisasm():
    """Innermost loops, and code without addresses and padding."""
    lines = [
        ("MOV", "R1,RZ"),
        ("FADD", "R1,R1,R2"),  # 0x10: the outer loop
        ("LDG.E.128", "R4,[R2.64]"),  # 0x20: the inner loop
        ("STL.64", "[R1],R4"),
        ("BRA", "0x20"),
        ("BRA.U", "!UP0,0x10"),
        ("EXIT", ""),
        ("BRA", "0x70"),  # to itself
        ("NOP", ""),
    ]
    jumps = {"other-attributes": {"control-flow": "True"}}
    instructions = [
        {"opcode": opcode, "operands": operands} | (jumps if opcode.startswith("BRA") else {})
        for opcode, operands in lines
    ]
    instructions[3]["predicate"] = "@P0"
    mix = machine_code._mix("kernel", instructions)
    assert mix.classes == {"other": 1, "float32": 1, "global": 1, "local": 1, "branch": 3}
    assert mix.loops == {"global": 1, "local": 1, "branch": 1}
    assert mix.local_bytes == {0x30: 8}
    assert mix.details["global LDG.128"] == 1
    assert mix.code.splitlines() == [
        "kernel:",
        "        MOV R1,RZ",
        "L1:     FADD R1,R1,R2",
        "L2:     LDG.E.128 R4,[R2.64]",
        "        @P0 STL.64 [R1],R4",
        "        BRA L2",
        "        BRA.U !UP0 L1",
        "        EXIT",
    ]
