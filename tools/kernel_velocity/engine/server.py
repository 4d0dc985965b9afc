"""A server for asv that imports the suite once, and forks one process, which measures all series of a GPU.

asv's own server forks a process for each series. On a GPU each then makes a CUDA context, loads the libraries and opens
their handles, which takes longer than its samples. What a series left in the shared process is put back before the next
(`ProcessState`). A series that fails, crashes or runs past its timeout ends it, and the next one begins another.

Commands and answers are those of asv_runner 0.3.2, launch method `forkserver`. Where series share a process, asv starts
this module in place of its own server (runner/host.py). A series that does not (`is_shared`) has its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from kernel_velocity.engine import process_state
from kernel_velocity.names import DEVICES

ISOLATE = "KV_ISOLATE"  # variable
TIMED_OUT = -256  # the status by which asv knows the timeout
LOOK_AGAIN = 0.1  # s between two looks at a process that does not answer
_LENGTH = struct.Struct("<Q")  # in front of every message

Task = tuple[str, tuple[str, str, str, str, str], str]  # file for output, arguments of asv's `_run`, folder to run in


def is_shared(environ: Mapping[str, str], device: str) -> bool:
    """Return whether the series of a round share a process: those of "cuda", unless KV_ISOLATE says it for all.

    A GPU's context and libraries take longer than the samples. On a CPU times can differ in a shared process.

    Raises:
        ValueError: KV_ISOLATE is neither 0 nor 1.
    """
    text = environ.get(ISOLATE) or ""
    if text not in ("", "0", "1"):
        raise ValueError(f"{ISOLATE}: got {text!r}; wanted 1 (a process for each series) or 0 (one for all of a round)")
    return text == "0" or (text == "" and device == "cuda")


class ProcessState:
    """What series could hand on to each other in one process, as it was when the process began."""

    def __init__(self) -> None:
        self._environ = dict(os.environ)
        gc.freeze()  # what is there now stays: a collection that looked at all of torch would take .1 s
        self._seed = sys.modules["torch"].initial_seed() if "torch" in sys.modules else None
        self._settings = None if self._seed is None else process_state.State()

    def put_back(self) -> None:
        """Restore the environment and torch's settings, and give back compiled code and memory."""
        if self._settings is not None:
            self._settings.put_back()
        os.environ.clear()
        os.environ.update(self._environ)
        if "torch._dynamo" in sys.modules:
            sys.modules["torch._dynamo"].reset()
        gc.collect()
        if self._seed is not None:
            torch: Any = sys.modules["torch"]
            torch.manual_seed(self._seed)  # of all devices
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        with contextlib.suppress(AttributeError):  # no glibc
            ctypes.CDLL(None).malloc_trim(0)


# The process that measures --------------------------------------------------------------------------------------------


def serve(tasks: Connection) -> None:
    """Run the series that arrive, until the other end closes. An error ends the process with its traceback."""
    from asv_runner._aux import posix_redirect_output  # noqa: PLC0415 - half a second, for who asks `is_shared`
    from asv_runner.run import _run  # noqa: PLC0415

    state = ProcessState()
    is_first = True
    with contextlib.suppress(EOFError):
        while True:
            output, arguments, folder = tasks.recv()
            with posix_redirect_output(output, permanent=False):
                try:
                    if not is_first:
                        state.put_back()
                    os.chdir(folder)
                    _run(arguments)
                except BaseException:  # noqa: BLE001 - whatever it is, asv gets the traceback, and the process ends
                    traceback.print_exc()
                    sys.stderr.flush()
                    os._exit(1)
            is_first = False
            tasks.send(None)


class MeasuringProcess:
    """A forked process that measures series, one after the other."""

    def __init__(self) -> None:
        self._tasks, theirs = Pipe()
        self._status: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._tasks.close()
                sys.stdin.close()
                serve(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def has_ended(self, options: int = os.WNOHANG) -> bool:
        """Return whether it has ended. With 0 for options wait until it has."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is not None

    def run(self, task: Task, timeout: float) -> int:
        """Have it run a series. Return 0, or how it ended: its status, minus the signal, or TIMED_OUT."""
        self._tasks.send(task)
        deadline = monotonic() + timeout
        try:
            # The look at the process is for one that left another, which still has the pipe open.
            while not (self._tasks.poll(LOOK_AGAIN) or self.has_ended()):
                if monotonic() > deadline:
                    os.kill(self._pid, signal.SIGKILL)
                    self.end()
                    return TIMED_OUT
            if self._tasks.poll():
                self._tasks.recv()
                return 0
        except (EOFError, ConnectionResetError):
            pass
        return self.end()

    def end(self) -> int:
        """Have it end. Return its status."""
        self._tasks.close()
        self.has_ended(0)
        return self._status or 0


# The server -----------------------------------------------------------------------------------------------------------


class Server:
    """Runs asv's commands on the suite in a folder. Their output goes to a file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._shared: MeasuringProcess | None = None

    def import_suite(self, output: str) -> None:
        """Import all modules of the suite."""
        from asv_runner._aux import posix_redirect_output  # noqa: PLC0415
        from asv_runner.discovery import disc_benchmarks  # noqa: PLC0415

        with posix_redirect_output(output, permanent=False):
            for _ in disc_benchmarks(self._folder, ignore_import_errors=True):
                pass

    def run(self, command: Mapping[str, Any], output: str) -> int:
        """Run a series. Return the status of `MeasuringProcess.run`."""
        names = ("benchmark_id", "params_str", "profile_path", "result_file")
        task = (output, (self._folder, *(command[name] for name in names)), command["cwd"])
        device = "cuda" if f".{DEVICES['cuda']}." in command["benchmark_id"] else "cpu"
        if not is_shared(os.environ, device):
            alone = MeasuringProcess()
            return alone.run(task, command["timeout"]) or alone.end()
        if self._shared is None or self._shared.has_ended():
            self._shared = MeasuringProcess()
        return self._shared.run(task, command["timeout"])


def run_server(args: Sequence[str]) -> None:
    """Serve asv's commands for the suite in a folder, on a Unix socket at a path, until asv interrupts this process."""
    from asv_runner._aux import update_sys_path  # noqa: PLC0415
    from asv_runner.server import recvall  # noqa: PLC0415

    folder, path = args
    update_sys_path(folder)
    server = Server(folder)
    with socket.socket(socket.AF_UNIX) as listener, contextlib.suppress(KeyboardInterrupt):
        listener.bind(path)
        listener.listen(1)
        while True:
            connection, _ = listener.accept()
            with connection, tempfile.NamedTemporaryFile(mode="r", errors="replace") as output:
                (size,) = _LENGTH.unpack(recvall(connection, _LENGTH.size))
                command = json.loads(recvall(connection, size))
                if command["action"] == "preimport":
                    server.import_suite(output.name)
                    answer: object = output.read()
                else:
                    status = server.run(command, output.name)
                    answer = {"out": output.read(), "errcode": status}
                message = json.dumps(answer).encode()
                connection.sendall(_LENGTH.pack(len(message)) + message)


if __name__ == "__main__":
    from asv import benchmark as program

    program.commands["run_server"] = run_server
    program.main()
