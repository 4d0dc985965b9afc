"""The workflow files and the composite actions as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
SCRIPTS = ROOT / ".github" / "scripts"
ACTIONS = ROOT / ".github" / "actions"
PATHS = sorted(FOLDER.iterdir())
ACTION_PATHS = sorted(ACTIONS.glob("*/action.yml"))


def read(path: Path) -> dict[str, Any]:
    """Return a workflow. YAML 1.2, as GitHub reads it: `on` is a word and no truth value."""
    result: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return result


ACTION = {path.parent.name: read(path) for path in ACTION_PATHS}
WORKFLOWS = {path.name: read(path) for path in PATHS}


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (file, name, job)."""
    for file, workflow in WORKFLOWS.items():
        for name, job in workflow["jobs"].items():
            yield file, name, job


def action_steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, step) of the composite actions."""
    for name, action in ACTION.items():
        for step in action["runs"]["steps"]:
            yield f"{name}: {step['name']}", step


def steps() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (where, job, step)."""
    for file, name, job in jobs():
        for number, step in enumerate(job["steps"]):
            yield f"{file}: {name}: {step.get('name', number)}", job, step
