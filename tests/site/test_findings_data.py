"""The findings as data files, and that the README documents every data file of a site."""

import json
import re
from pathlib import Path

import pytest

from kernel_velocity.findings import evidence_store, text
from kernel_velocity.site import model, report
from kernel_velocity.site.outputs import DataFile
from kernel_velocity.site.pages import findings
from kernel_velocity.site.writer import json_bytes
from tests import synthetic
from tests.findings import evidenced

README = Path(__file__).parents[2] / "README.md"


def test_each_finding_is_a_file_with_its_evidence_and_one_lists_them(tmp_path):
    tree = synthetic.build(tmp_path)
    evidenced.write(tree)
    found = model.read(tree.results, tree.repository)
    _, *data = findings.build(found)
    files = {made.name: json.loads(json_bytes(made.value)) for made in data}
    listed = files.pop("findings")["findings"]
    assert [{**text.as_data(item), "page": f"finding-{item.id}.html"} for item in found.findings] == listed
    assert set(files) == {f"finding-{item.id}" for item in found.findings}
    for item in found.findings:
        own = files[f"finding-{item.id}"]
        kept, _ = found.evidence(item.id)
        read = {machine: evidence_store.parse(raw, "") for machine, raw in own["evidence"].items()}
        assert read == kept and own["id"] == item.id
    assert any(own["evidence"] for own in files.values())


@pytest.mark.slow
def test_the_readme_documents_every_data_file(whole_tree):
    patterns = re.findall(r"`([a-z]+(?:-[a-zA-Z0-9<> -]*)?)`", README.read_text(encoding="utf-8"))
    known = [re.compile(re.sub("<[^>]*>", ".+", pattern)) for pattern in patterns]
    found = model.read(whole_tree.results, whole_tree.repository)
    names = {made.name for module in report.MODULES for made in module.build(found) if isinstance(made, DataFile)}
    assert {"home", "machines", "rounds-index", "fits-0", "roofline-0-Cpu"} <= names
    assert [name for name in sorted(names) if not any(pattern.fullmatch(name) for pattern in known)] == []
