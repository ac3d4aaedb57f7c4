"""Programs that know nothing of pycomms.ft: what torchrun does with them."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest

from ._running import Running

SHOW = """
    import json, os, sys
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
             "ROLE_NAME", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
    print(json.dumps([{name: os.environ.get(name) for name in names}, sys.argv[1:], sys.path[0], __name__]))
"""


def test_workers_are_told_what_torchrun_tells(tmp_path: Path) -> None:
    with Running(
        tmp_path,
        SHOW,
        "--nproc-per-node=2",
        "--rdzv-id=seven",
        "--role=trainer",
        "--no-prefix",
        arguments=["--lr", "-m", "1"],
        environment={"OMP_NUM_THREADS": "5"},
    ) as job:
        assert job.end() == 0
        told = sorted(map(json.loads, job.out), key=lambda one: str(one[0]["RANK"]))
    for rank, (environment, arguments, path, name) in enumerate(told):
        assert environment == {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "ROLE_RANK": str(rank),
            "ROLE_NAME": "trainer",
            "MASTER_ADDR": "127.0.0.1",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "3",
            "TORCHELASTIC_RUN_ID": "seven",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
            "OMP_NUM_THREADS": "5",
            "CUDA_VISIBLE_DEVICES": None,
        }
        assert arguments == ["--lr", "-m", "1"]
        assert path == str(tmp_path)
        assert name == "__main__"


def test_virtual_local_rank(tmp_path: Path) -> None:
    options = ("--nproc-per-node=2", "--virtual-local-rank", "--no-prefix")
    with Running(tmp_path, SHOW, *options, environment={"CUDA_VISIBLE_DEVICES": "4, 6"}) as job:
        assert job.end() == 0
        told = [json.loads(line)[0] for line in job.out]
    assert {(one["LOCAL_RANK"], one["CUDA_VISIBLE_DEVICES"]) for one in told} == {("0", "4"), ("0", "6")}


def test_module(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text("import sys; print('ran', sys.argv[1:], __name__)")
    with Running(tmp_path, "", "--no-prefix", "-m", "shown", "x", name="unused") as job:
        assert job.end() == 0
        assert job.out == [f"ran ['x', '{tmp_path}/unused'] __main__"]


def test_no_python(tmp_path: Path) -> None:
    with Running(tmp_path, "echo rank $RANK", "--no-python", "--nproc-per-node=2", "/bin/sh", name="job.sh") as job:
        assert job.end() == 0
        assert sorted(job.out) == ["[0]:rank 0", "[1]:rank 1"]


def test_no_such_program(tmp_path: Path) -> None:
    with Running(tmp_path, "", "--no-python", "--max-restarts=0", "no-such-program") as job:
        assert job.end() == 1
        job.line(r"no such program: no-such-program")
        job.line(r"exit code 127")


DYING = """
    import os, pathlib, signal, sys
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    print("port", os.environ["MASTER_PORT"], flush=True)
    if os.environ["RANK"] == "1" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if first:
        signal.pause()
    print("finished")
"""


def test_one_death_starts_all_again(tmp_path: Path) -> None:
    before = time.time()
    with Running(tmp_path, DYING, "--nproc-per-node=3", "--max-restarts=1", "--json") as job:
        assert job.end() == 0
        assert job.count("finished") == 3
        ports = {line.partition(" ")[2] for line in job.out if "port" in line}
        assert len(ports) == 2, "the store of the first start may not be met by the second"
        job.line(r"rank 1 has ended with signal 9 \(SIGKILL\): all workers are started again \(round 1\)")
        summary = job.summary()
    assert (summary["exit_code"], summary["rounds"], summary["replaced"]) == (0, 2, 0)
    assert [(death["rank"], death["how"]) for death in summary["deaths"]] == [(1, "signal 9 (SIGKILL)")]
    assert before < summary["deaths"][0]["time"] < time.time()


def test_a_job_that_has_failed_says_who_died_first_and_how(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        if os.environ["RANK"] == "2":
            print("my last words", file=sys.stderr)
            sys.exit(7)
        signal.pause()
    """
    with Running(tmp_path, script, "--nproc-per-node=3", "--max-restarts=1") as job:
        assert job.end() == 1
        job.line(r"the job has failed: rank 2 has ended with exit code 7; .* 1 times \(--max-restarts\)")
        job.line(r"first: rank 2 \(local rank 2, pid \d+, start 2\), exit code 7")
        job.line(r"\| my last words")


def test_what_torchs_record_has_written_is_told(tmp_path: Path) -> None:
    script = """
        import json, os, sys
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": {"message": "m", "extraInfo": {"py_callstack": "Traceback\\nKeyError: 3"}}}, file)
        sys.exit(1)
    """
    with Running(tmp_path, script, "--max-restarts=0") as job:
        assert job.end() == 1
        job.line(r"\| KeyError: 3")


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_signals_go_to_the_workers(tmp_path: Path, number: signal.Signals, code: int) -> None:
    script = f"""
        import signal, sys
        signal.signal({number.value}, lambda *_: (print("told", flush=True), sys.exit(5)))
        print("ready", flush=True)
        signal.pause()
    """
    with Running(tmp_path, script, "--nproc-per-node=2") as job:
        job.line("ready", 2)
        job.process.send_signal(number)
        assert job.end() == code
        assert job.count(r"\]:told") == 2
        assert not job.processes()


DEAF = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def test_who_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    with Running(tmp_path, DEAF, "--nproc-per-node=2", "--shutdown-timeout=1") as job:
        job.line("ready", 2)
        job.process.send_signal(signal.SIGTERM)
        assert job.end() == 143
        assert not job.processes()


def test_the_second_signal_waits_for_nobody(tmp_path: Path) -> None:
    with Running(tmp_path, DEAF, "--shutdown-timeout=3600") as job:
        job.line("ready")
        job.process.send_signal(signal.SIGINT)
        job.line("SIGINT: the workers are told to end")
        job.process.send_signal(signal.SIGINT)
        assert job.end() == 130


def test_nobody_outlives_an_agent_that_is_killed(tmp_path: Path) -> None:
    with Running(tmp_path, DEAF, "--nproc-per-node=2") as job:
        job.line("ready", 2)
        assert len(job.processes()) >= 2
        job.process.kill()
        job.process.wait()
        # The with statement fails if any is left.


def test_what_a_dead_worker_has_started_ends_too(tmp_path: Path) -> None:
    script = """
        import os, signal, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import signal; print('child', flush=True); signal.pause()"],
                                 stdout=subprocess.PIPE)
        child.stdout.readline()
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with Running(tmp_path, script, "--max-restarts=0") as job:
        assert job.end() == 1
        assert not job.processes()


def test_a_killed_agents_folder_is_removed_by_the_next(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary)}
    with Running(tmp_path, DEAF, environment=environment) as job:
        job.line("ready")
    assert len(list(temporary.iterdir())) == 1
    with Running(tmp_path, "", environment=environment) as job:
        assert job.end() == 0
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "options, complaint",
    [
        (["--nproc-per-node=0"], "--nproc-per-node is '0'"),
        (["--nnodes=3:2"], "--nnodes is '3:2'"),
        (["--max-restarts=-1"], "--max-restarts is -1"),
        (["--recovery-deadline=0.1"], "recovery_deadline is 0.1 s"),
        (["--tee=4"], "--tee is '4'"),
        (["--nnodes=2", "--rdzv-endpoint=localhost:29400"], "--token-file is missing"),
        (["--no-python", "-m"], "--no-python and --module"),
        (["--signals-to-handle=SIGFOO"], "SIGFOO"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_wrong_command_lines(tmp_path: Path, options: list[str], complaint: str) -> None:
    with Running(tmp_path, "", *options) as job:
        assert job.end() == 2
        job.line("usage: pycomms run")
        assert any(complaint in line for line in job.err), job.err


def test_what_is_not_there_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with Running(tmp_path, "", "--token-file=nowhere") as job:
        assert job.end() == 2
        assert job.lines == ["pycomms run: --token-file is 'nowhere', expected a file that can be read"]
    with Running(tmp_path, "", "no_such_script.py") as job:
        assert job.end() == 2
        assert job.lines == [
            f"pycomms run: the script is 'no_such_script.py', expected a file; there is none, seen from {tmp_path}"
        ]


def test_options_that_mean_nothing_here_are_named_once(tmp_path: Path) -> None:
    with Running(tmp_path, "", "--monitor-interval=1", "--start-method=fork", "--numa-binding=node") as job:
        assert job.end() == 0
        for name in ("--monitor-interval", "--start-method", "--numa-binding"):
            assert job.count(f"warning: {name}: ") == 1


def test_python_of_the_users_choice(tmp_path: Path) -> None:
    environment = {"PYTHON_EXEC": str(tmp_path / "other")}
    (tmp_path / "other").write_text(f'#!/bin/sh\necho chosen\nexec {sys.executable} "$@"\n')
    (tmp_path / "other").chmod(0o755)
    with Running(tmp_path, "print('ran')", "--no-prefix", environment=environment) as job:
        assert job.end() == 0
        assert job.out == ["chosen", "ran"]
