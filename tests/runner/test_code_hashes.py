"""What code a series runs: the kernel's own hash, and what all kernels share."""

import json

import pytest

from kernel_velocity.runner.build_info import BUILD_INFO, code_hash


@pytest.fixture
def wheel(tmp_path):
    (tmp_path / BUILD_INFO).parent.mkdir(parents=True)
    (tmp_path / BUILD_INFO).write_text(json.dumps({"kernels": {"a": {"code_hash": "1"}, "b": {"code_hash": "2"}}}))
    (tmp_path / "kernels" / "__init__.py").write_text("")
    (tmp_path / BUILD_INFO).with_name("launch.py").write_text("")
    return tmp_path


def test_another_hash_of_the_kernel_is_other_code(wheel):
    before = code_hash(wheel, "a")
    assert before != code_hash(wheel, "b")
    (wheel / BUILD_INFO).write_text(json.dumps({"kernels": {"a": {"code_hash": "1"}, "b": {"code_hash": "3"}}}))
    assert code_hash(wheel, "a") == before


@pytest.mark.parametrize("path", ["kernels/__init__.py", "kernels/_native/launch.py", "kernels/_native/new.py"])
def test_what_kernels_share_is_code_of_all(wheel, path):
    before = code_hash(wheel, "a")
    (wheel / path).write_text("changed")
    assert code_hash(wheel, "a") != before


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"kernels": {}}', '{"kernels": {"a": {"code_hash": 3}}}', None])
def test_what_a_wheel_does_not_tell_is_unknown(wheel, text):
    (wheel / BUILD_INFO).unlink() if text is None else (wheel / BUILD_INFO).write_text(text)
    assert code_hash(wheel, "a") is None
