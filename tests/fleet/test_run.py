"""A run with simulated machines: what is lost, late, damaged or refused is measured once in the end."""

import io
import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from kernel_velocity import fields
from kernel_velocity.fleet import archive, scheduler, worker
from kernel_velocity.fleet import run as fleet_run
from kernel_velocity.fleet.plan import Lane, Limits
from kernel_velocity.fleet.run import Fleet
from kernel_velocity.results import blocks, lines
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.runner.track import TrackSettings
from tests import synthetic
from tests.fleet.node import contents

MESSAGES = tuple(f"Change {number}" for number in range(6))
LANES = [f"{name.partition('.')[0]} {case}" for name, cases in synthetic.CASES.items() for case in cases][:3]
ROUNDS = 8
SETTINGS = TrackSettings(range=None, bench=None, rounds=ROUNDS, tier="core", machine=None, again=False)


class Future:
    """A job that a machine measures when it is first asked whether it is done."""

    def __init__(self, client, order):
        self.client, self.order, self.status, self.outcome = client, order, "pending", None

    def done(self):
        machine = self.order.job.machine
        if self.status == "pending" and machine not in self.client.silent:
            try:
                self.outcome, self.status = self.client.measure(self.order), "finished"
            except OSError as error:
                self.outcome, self.status = error, "error"
        return self.status != "pending"

    def result(self):
        return self.outcome

    def exception(self):
        return self.outcome

    def cancel(self):
        self.client.cancelled.append(self)

    def release(self):
        pass


class Client:
    """Dask's client, as the run uses it."""

    def __init__(self, folder, commits, names):
        self.folder, self.commits = folder, commits
        self.there = {f"tcp://{name}:1": name for name in names}
        self.silent, self.cancelled, self.orders, self.full = set(), [], [], set()
        self.edit = lambda result: result
        self.kinds = {}

        self.scheduler = SimpleNamespace(identity=self.identity)

    def sync(self, function, **options):
        return function(**options)

    def identity(self, n_workers):
        assert n_workers == -1
        return {"workers": {address: {"name": name} for address, name in self.there.items()}}

    def run(self, function, workers, on_error):
        assert (function, on_error) == (worker.describe, "return")
        return {address: self.describe(self.there[address]) for address in workers}

    def describe(self, name):
        return {"name": name, "host": name, "gpus": [], "processor": self.kinds.get(name, "CPU"), "time": 0.0}

    def submit(self, function, *args, **options):
        if function is not worker.measure:
            return None
        order = fields.parse(worker.Order, json.loads(json.dumps(asdict(args[0]))), worker.ORDER)  # as it travels
        assert order == args[0] and list(self.there) and options["workers"][0] in self.there
        self.orders.append(order)
        return Future(self, order)

    def measure(self, order):
        """Return what a worker sends: synthetic results of the lanes and commits of its job."""
        job = order.job
        if job.machine in self.full:
            raise OSError(28, "No space left on device")
        collected = self.folder / "collected"
        suite = {
            name: {case: size for case, size in cases.items() if f"{name.partition('.')[0]} {case}" in job.lanes}
            for name, cases in synthetic.CASES.items()
        }
        suite = {name: cases for name, cases in suite.items() if cases}
        synthetic.write_json(collected / "results/benchmarks.json", synthetic.benchmarks_json(suite))
        machine = collected / "results" / job.machine
        synthetic.write_json(machine / "machine.json", {**synthetic.machine_json(job.machine), "arch": "x86_64"})
        for sha in job.measured:
            index = self.commits.index(sha)
            synthetic.write_commit(collected / "results", sha, index, machine=job.machine, suite=suite)
        block = blocks.Block(
            machine=job.machine,
            lanes=job.lanes,
            commits=job.commits,
            anchors=job.anchors,
            rounds=job.rounds,
            began=order.began,
            seconds=60.0,
            device="CPU",
            times=tuple(worker._times(machine, job.anchors)),
        )
        (collected / "run").mkdir()
        (collected / "run" / blocks.NAME).write_text(blocks.encode(block))
        manifest = archive.Manifest(
            project=archive.PROJECT,
            root=order.root,
            head=order.head,
            commits=job.measured,
            machine=job.machine,
            node=archive.Node(),
            written=1.79e9 + len(self.orders),
        )
        (collected / "manifest.json").write_text(manifest.to_json())
        (self.folder / "tar").write_bytes(archive.of_folder(collected))
        shutil.rmtree(collected)
        data = (self.folder / "tar").read_bytes()
        result = worker.Result(key=job.key, machine=job.machine, status=0, seconds=60.0, tar=data)
        return self.edit(result)


class World:
    """A clone, its commits, and three machines."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "clone"
        self.commits = synthetic.make_repository(self.root, MESSAGES, "Ada Lovelace")
        (self.root / "asv.conf.json").write_text("{}")
        (self.root / ".asv").mkdir()
        self.client = Client(folder, self.commits, ["one", "two", "three"])
        self.scheduler = scheduler.parse("tls://head:1")
        self.fleet = self.start()

    def start(self):
        """Return a run that knows what is recorded."""
        fleet = Fleet(
            root=self.root,
            commits=tuple(reversed(self.commits)),
            settings=SETTINGS,
            out=io.StringIO(),
            head=self.commits[-1],
            first=self.commits[0],
            limits=Limits(rounds=ROUNDS, session=250.0, anchors=2),
        )
        fleet.device = "cpu"
        fleet.lanes = {name: Lane(name=name, series=3) for name in LANES}
        fleet.remember()
        return fleet

    def run(self):
        self.fleet.run(self.client, self.scheduler, b"")
        return self.fleet.out.getvalue()

    def recorded(self):
        """Return how often each lane's commit has a value, over all machines, with its rounds."""
        count = Counter()
        for path in self.root.glob("results/*/*-*.json"):
            for (name, *params), rounds in lines.read_rounds(lines.beside(path, lines.ROUNDS), []).items():
                count[blocks.lane_of((name, tuple(params))), StoredFile(path).commit, params[0], len(rounds)] += 1
        return count

    def planned(self):
        """Return how often each commit of a lane was measured for its own sake."""
        return Counter(
            (name, sha)
            for block in blocks.read(self.root / "results", [])
            for name in block.lanes
            for sha in block.commits
        )


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_run, "POLL", 0.02)
    monkeypatch.setattr(fleet_run, "LOST", 0.0)
    return World(tmp_path)


def everything(world):
    return Counter((name, sha) for name in LANES for sha in world.commits)


def test_all_is_measured_once_and_a_second_run_has_nothing_to_do(world):
    world.run()
    assert world.planned() == everything(world)
    recorded = world.recorded()
    assert set(recorded.values()) == {1}  # a lane's commits are on one machine
    assert {key[-1] for key in recorded} == {ROUNDS}
    assert len(world.client.orders) > 3
    assert sum(order.ceilings for order in world.client.orders) == 3  # once for each machine
    before, measured = contents(world.root / "results"), len(world.client.orders)
    world.fleet = world.start()
    world.run()
    assert len(world.client.orders) == measured
    assert contents(world.root / "results") == before


def test_every_fourth_commit_then_halves_between_two_that_differ(world):
    world.fleet.settings = replace(SETTINGS, every=4)
    text = world.run()
    indices = (0, 1, 2, 3, 5)  # every fourth of six, the newest first, and the oldest: it is between 1 and 2
    assert world.planned() == Counter((name, world.commits[index]) for name in LANES for index in indices)
    assert f"{len(LANES) * 5} of {len(LANES) * 5} measured, 0 s left" in text
    assert {order.job.anchors for order in world.client.orders} == {(world.commits[5], world.commits[1])}
    measured = len(world.client.orders)
    world.fleet = world.start()
    world.fleet.settings = replace(SETTINGS, every=4)
    world.fleet.remember()
    world.run()
    assert len(world.client.orders) == measured


def test_job_of_a_lost_machine_goes_elsewhere_whole(world):
    world.client.silent.add("two")  # it has a job, and never answers
    late = []
    take = world.fleet.take

    def lose(job, result):
        if world.client.there.pop("tcp://two:1", None):
            late.extend(order for order in world.client.orders if order.job.machine == "two")
        return take(job, result)

    world.fleet.take = lose
    text = world.run()
    assert "two: its worker ended while it measured" in text and "two: lost" in text
    assert world.planned() == everything(world)
    assert [future.order for future in world.client.cancelled] == late
    again = [order for order in world.client.orders if order.job.commits == late[0].job.commits]
    assert next(order.job.machine for order in again if order.job.lanes == late[0].job.lanes) == "two"
    assert not (world.root / "results" / "two").exists()


def test_full_disk_costs_its_machine_the_lane_and_is_named(world):
    world.client.full.add("three")
    text = world.run()
    assert "three: failed to measure" in text and "No space left on device" in text
    assert world.planned() == everything(world)


def test_what_no_machine_can_measure_is_tried_on_three_and_named(world):
    world.client.full |= {"one", "two", "three"}
    world.run()
    tries = Counter(name for order in world.client.orders for name in order.job.lanes)
    assert set(tries.values()) == {3}
    assert set(world.fleet.given_up()) == set(LANES)


def test_damaged_result_is_measured_elsewhere(world):
    damaged = []

    def damage(result):
        if not damaged:
            damaged.append(result.machine)
            return worker.Result(**{**vars(result), "tar": result.tar[:-9]})
        return result

    world.client.edit = damage
    assert f"{damaged or ''}" == "" and "not a whole .tar.xz" in world.run()
    assert world.planned() == everything(world)


def test_interrupted_run_resumes_with_what_is_missing(world):
    take = world.fleet.take

    def interrupt(job, result):
        take(job, result)
        raise KeyboardInterrupt

    world.fleet.take = interrupt
    run, stopped = world.client.run, []
    world.client.run = lambda function, **options: (
        stopped.append(function) if function is worker.stop else run(function, **options)
    )
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert stopped == [worker.stop]
    before = world.planned()
    assert before and before != everything(world)
    world.fleet = world.start()
    world.run()
    assert world.planned() == everything(world)


def test_blocks_of_a_lane_record_the_times_of_the_same_anchors(world):
    world.run()
    recorded = blocks.read(world.root / "results", [])
    lanes = {block.lanes for block in recorded}
    assert len(recorded) > len(lanes)
    for names in lanes:
        of_lanes = [block for block in recorded if block.lanes == names]
        assert len({block.anchors for block in of_lanes}) == 1
        for block in of_lanes:
            assert {time.commit for time in block.times} == set(block.anchors)


def test_odd_machine_is_pointed_out(world):
    world.client.kinds["three"] = "Other CPU"
    world.client.describe = lambda name, describe=world.client.describe: describe("one" if name == "two" else name)
    text = world.run()
    assert "three: is a Other CPU, most others are CPU" in text
    assert "is called one, as tcp://" in text
    assert {order.job.machine for order in world.client.orders} == {"one", "three"}
    assert world.planned() == everything(world)


def test_run_without_a_machine_waits_for_one(world, monkeypatch):
    world.client.silent |= {"one", "two", "three"}
    away = dict(world.client.there)

    def wait(client, scheduler, say, wanted, jobs):
        client.silent.clear()
        client.there = away

    submit = world.client.submit

    def lose(function, *args, **options):
        future = submit(function, *args, **options)
        if world.client.silent:
            world.client.there = {name: there for name, there in away.items() if name not in options.get("workers", ())}
        if len(world.client.orders) == 3:
            world.client.there = {} if world.client.silent else away
        return future

    world.client.submit = lose
    monkeypatch.setattr(scheduler, "wait", wait)
    world.run()
    assert world.planned() == everything(world)


def test_damaged_record_of_a_block_is_named(world):
    world.run()
    path = next(world.root.glob("results/*/runs/*/block.jsonl"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "rounds": 0}))
    problems = []
    assert len(blocks.read(world.root / "results", problems)) == len(world.client.orders) - 1
    assert problems == [f"{path}: rounds: a positive number is wanted, got 0; left out"]
