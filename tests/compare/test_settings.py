"""How a comparison measures, on which cases and implementations, and what it runs on."""

import pytest

from kernel_velocity import lock
from kernel_velocity.compare import implementations, job
from kernel_velocity.compare.implementations import dtype_of, matching, select_cases
from kernel_velocity.compare.settings import PRESETS, TimingSettings, settings
from kernel_velocity.engine import gpu, reported
from kernel_velocity.engine.stopping import FixedCount, VariationOfRates
from kernel_velocity.errors import UsageError
from kernel_velocity.problem.accuracy import parse_tolerance
from kernel_velocity.runner.host import measuring_variables
from tests.compare.doubling import Doubling, DoublingBytes
from tests.engine import pretend_cuda


def chosen_by(**options):
    return settings(environ={}, **options)


# Settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "warmups", "rule"),
    [
        ("fused", 10, FixedCount(n=100)),
        ("chapter", 50, FixedCount(n=1000)),
        ("comppare", 100, FixedCount(n=100)),
        ("futhark", 1, FixedCount(n=10)),
        ("tensara", 10, VariationOfRates(eps=0.01, n_min=5, n_max=20)),
    ],
)
def test_presets_are_as_published(preset, warmups, rule):
    chosen = chosen_by(preset=preset)
    assert (chosen.warmups, chosen.rule) == (warmups, rule)
    assert chosen.described()["preset"].startswith(f"{preset} (")
    assert set(PRESETS) == {"fused", "chapter", "comppare", "futhark", "tensara"}


def test_default_is_the_rounds_of_the_history():
    chosen = chosen_by()
    assert (chosen.rounds, chosen.warmups, chosen.rule.name, chosen.rule.parameters()["eps"]) == (
        *(8, None, "adaptive.round"),
        0.003,
    )
    described = chosen.described()
    assert (described["warm-up"], described["tolerance"]) == ("by time, 50 ms or more", "the problem's own")
    tolerant = chosen_by(tolerance=parse_tolerance("1e-3")).described()
    assert tolerant["tolerance"] == "rtol=0.001,atol=0.001 (as given)"


@pytest.mark.parametrize(
    ("options", "warmups", "rule"),
    [
        ({"preset": "fused", "iters": 7}, 10, FixedCount(n=7)),
        ({"preset": "chapter", "rule": "fixed"}, 50, FixedCount()),
        ({"iters": 20}, 10, FixedCount(n=20)),
        ({"iters": 20, "warmups": 0}, 0, FixedCount(n=20)),
    ],
)
def test_options_replace_a_part_of_a_preset(options, warmups, rule):
    chosen = chosen_by(**options)
    assert (chosen.warmups, chosen.rule, chosen.described()["sample"]) == (warmups, rule, "one call")


def test_rule_and_its_parameters_are_of_the_environment_too():
    assert settings(environ={"KV_RULE": "fixed", "KV_N": "5"}).rule == FixedCount(n=5)
    assert settings(environ={"KV_RULE": "cv", "KV_N": "1"}, rule="fixed").rule == FixedCount(n=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "mine"}, "--preset must be one of fused, chapter"),
        ({"rule": "soon"}, "--rule soon: no stopping rule 'soon'; there are adaptive"),
        ({"rule": "fixed", "environ": {"KV_EPS": "1"}}, "KV_EPS"),
        ({"rule": "cv", "iters": 5}, "--iters 5 is itself a stopping rule: leave out --rule cv"),
        ({"iters": 0}, "--iters must be at least 1 \\(got 0\\)"),
        ({"rounds": 0}, "--rounds must be at least 1"),
    ],
)
def test_invalid_settings_are_one_line(options, words):
    with pytest.raises(UsageError, match=words) as raised:
        settings(**{"environ": {}} | options)
    assert "\n" not in str(raised.value)
    assert TimingSettings().rounds == 8


# Selection -----------------------------------------------------------------------------------------------------------

NAMES = ["float32-1M", "float32-10M", "int8-1M", "m = 1, n = 2"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, NAMES),
        ("float32-1M", ["float32-1M"]),  # a name is itself, though others begin with it
        ("int8-1M,float32-1M", ["float32-1M", "int8-1M"]),  # in the order of the problem
        ("1M", ["float32-1M", "int8-1M"]),
        ("10{0,1}M$", NAMES[:3]),  # this comma is the expression's own
        ("m = 1, n = 2", ["m = 1, n = 2"]),  # and this the name's
        (["m = 1, n = 2", "8"], ["int8-1M", "m = 1, n = 2"]),
    ],
)
def test_matching_names_and_expressions(pattern, names):
    assert matching("--sizes", pattern, NAMES, "here") == names


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("1M,2M", "--sizes '2M' matches nothing of here: there are float32-1M, float32-10M, int8-1M"),
        ("(", r"--sizes '\(': not a name, and not a valid regular expression"),
        ("", "--sizes '' matches nothing"),
    ],
)
def test_matching_nothing_is_an_error(pattern, words):
    with pytest.raises(UsageError, match=words):
        matching("--sizes", pattern, NAMES, "here")


def test_cases_match_in_one_problem_or_another():
    problems = [Doubling(), DoublingBytes()]

    def names(pattern, dtype=None):
        return [[test["name"] for test in of] for of in select_cases(problems, pattern, dtype)]

    assert names("int8,float32-small") == [["float32-small"], ["int8-small", "int8-large"]]
    assert names("large", "float32") == [["float32-large"], []]
    assert names(None, "int8") == [[], ["int8-small", "int8-large"]]
    with pytest.raises(UsageError, match="--sizes 'huge' matches nothing of doubling and doubling on cpu"):
        names("small,huge")
    with pytest.raises(UsageError, match=r"--dtype must be one of float32, int8 for doubling .* \(got float16\)"):
        names(None, "float16")


@pytest.mark.parametrize(
    ("case", "dtype"),
    [("float32-5M", "float32"), ("bfloat16-1M", "bfloat16"), ("tf32-1M", "tf32"), ("n = 64", "int8")],
)
def test_dtype_is_in_the_name_or_in_the_parameters(case, dtype):
    assert dtype_of(DoublingBytes(), case) == dtype
    assert implementations.named_dtype(case) == (dtype if "-" in case else None)


# System --------------------------------------------------------------------------------------------------------------


def test_system_of_the_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(reported, "data_caches", lambda device: {"L1": 32 << 10, "L2": 3 << 19})
    monkeypatch.setattr(job, "_CPUS", tmp_path)
    monkeypatch.setattr(job, "_CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("model name : x\ncpu MHz\t\t: 2450.500\n")
    environ = {"KV_RULE": "cv", "OMP_NUM_THREADS": "2", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "0", lock.HOLDER: "7"}
    facts = job.facts_of("cpu", 3, environ)
    assert list(facts) == [
        *("device", "caches", "free memory", "clocks", "load", "cores", "threads", "python", "torch", "system"),
        *("allocator", "CUDA_VISIBLE_DEVICES", "KV_RULE", "OMP_NUM_THREADS"),
    ]
    assert (facts["device"], facts["caches"]) == (reported.name("cpu"), "L1 32 KiB, L2 1.5 MiB")
    assert (facts["threads"], facts["clocks"], facts["allocator"][:10]) == ("3", "2.45 GHz", "not set up")
    for core, clock in (("cpu0", 1500000), ("cpu1", 2600000)):
        folder = tmp_path / core / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{clock}\n")
    monkeypatch.setattr(reported, "data_caches", lambda device: {})
    again = job.facts_of("cpu", 3, measuring_variables(None))
    assert (again["clocks"], again["caches"], again["allocator"]) == ("2.60 GHz", "unknown", "keeps freed memory")


def test_system_of_a_gpu_is_what_its_driver_knows(monkeypatch):
    torch = pytest.importorskip("torch")
    pretend_cuda.plant(monkeypatch, torch)
    answers = {
        "driver": "560.1",
        "sm_clock": 1.98e9,
        "sm_clock_most": 1.98e9,
        "memory_clock": 2.6e9,
        "power_limit": 700.0,
    }
    monkeypatch.setattr(gpu, "uuid", lambda: "GPU-0")
    monkeypatch.setattr(gpu, "describe", lambda uuid: answers)
    facts = job.facts_of("cuda", 1)
    assert (facts["device"], facts["driver"], facts["power limit"]) == ("Pretend", "560.1", "700 W")
    assert facts["clocks"] == "SM 1.98 GHz of 1.98 GHz, memory 2.60 GHz"
    monkeypatch.setattr(gpu, "describe", lambda uuid: "no driver")
    assert job.facts_of("cuda", 1)["driver"] == "unknown"
