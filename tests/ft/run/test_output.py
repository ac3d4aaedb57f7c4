"""The workers' output: on the console, in files, whole, and all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from pycomms.ft.run.lines import LONGEST, Lines
from pycomms.ft.run.writer import Writer

from ._running import Running, wait_for

TALK = """
    import os, sys
    rank = os.environ["LOCAL_RANK"]
    print("out", rank)
    print("err", rank, file=sys.stderr)
"""


def test_console_tells_the_ranks_apart(tmp_path: Path) -> None:
    with Running(tmp_path, TALK, "--nproc-per-node=2") as job:
        assert job.end() == 0
        assert sorted(job.out) == ["[0]:out 0", "[1]:out 1"]
        assert sorted(job.err) == ["[0]:err 0", "[1]:err 1"]


def test_prefix_of_the_users_choice(tmp_path: Path) -> None:
    template = "${role_name}${local_rank}/${rank} ${other}> "
    with Running(tmp_path, TALK, "--nproc-per-node=2", f"--log-line-prefix-template={template}") as job:
        assert job.end() == 0
        assert sorted(job.out) == ["default0/0 ${other}> out 0", "default1/1 ${other}> out 1"]


def logs(folder: Path) -> dict[str, str]:
    """What workers have written. Without the folder of the job, which has a random name."""
    return {
        path.relative_to(next(folder.iterdir())).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "coordinator.log"
    }


def test_redirects_and_tee(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with Running(tmp_path, TALK, "--nproc-per-node=3", f"--log-dir={folder}", "-r=0:3,1:1", "-t=1:2,2:1") as job:
        assert job.end() == 0
        assert sorted(job.out) == ["[2]:out 2"]
        assert sorted(job.err) == ["[1]:err 1", "[2]:err 2"]
    assert logs(folder) == {
        "attempt_0/0/stdout.log": "out 0\n",
        "attempt_0/0/stderr.log": "err 0\n",
        "attempt_0/1/stdout.log": "out 1\n",
        "attempt_0/1/stderr.log": "err 1\n",
        "attempt_0/2/stdout.log": "out 2\n",
    }


def test_only_some_ranks_on_the_console(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    options = ("--nproc-per-node=2", "--local-ranks-filter=1", f"--log-dir={folder}", "-t=1")
    with Running(tmp_path, TALK, *options) as job:
        assert job.end() == 0
        assert (job.out, job.err) == (["[1]:out 1"], ["[1]:err 1"])
    assert logs(folder)["attempt_0/0/stdout.log"] == "out 0\n"


def test_filters(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    script = "print('apple'); print('pear'); print('a,b'); print('orange')"
    options = (f"--log-dir={folder}", "--duplicate-stdout-filters=apple,a,,b,orange")
    with Running(tmp_path, script, *options) as job:
        assert job.end() == 0
        assert len(job.out) == 4
    assert logs(folder) == {"attempt_0/filtered_stdout.log": "apple\na,b\norange\n"}


def test_each_start_has_files_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    script = """
        import os, sys
        print("start", os.environ["TORCHELASTIC_RESTART_COUNT"])
        sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
    """
    with Running(tmp_path, script, f"--log-dir={folder}", "-r=1") as job:
        assert job.end() == 0
    assert logs(folder) == {"attempt_0/0/stdout.log": "start 0\n", "attempt_1/0/stdout.log": "start 1\n"}


def test_a_worker_is_started_again_where_its_logs_have_no_room(tmp_path: Path) -> None:
    """What it writes goes to the console then. Root may write where permissions forbid it: so there is a file."""
    folder = tmp_path / "logs"
    script = """
        import os, sys
        from pathlib import Path
        print("start", os.environ["TORCHELASTIC_RESTART_COUNT"])
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            logs = Path(os.environ["TORCHELASTIC_ERROR_FILE"]).parents[2]
            logs.rename(logs.with_name("before"))
            logs.touch()
            sys.exit(1)
    """
    with Running(tmp_path, script, f"--log-dir={folder}", "-r=1") as job:
        assert job.end() == 0
        assert job.out == ["[0]:start 1"]
        job.line(r"attempt_1/0/stdout.log: Not a directory: what would go there goes to the console")


def test_a_full_disk_may_have_room_again(tmp_path: Path) -> None:
    writer = Writer()
    descriptor = os.open("/dev/full", os.O_WRONLY)
    writer.put(descriptor, b"lost")
    assert wait_for(lambda: not writer._waiting)
    path = tmp_path / "file"
    with path.open("wb") as file:
        os.dup2(file.fileno(), descriptor)
    writer.put(descriptor, b"written")
    writer.close(descriptor)
    assert writer.end(timedelta(seconds=20))
    assert path.read_bytes() == b"written"


LINES = 20_000
BUSY = f"""
    import os, signal, sys
    rank = os.environ["RANK"]
    for i in range({LINES}):
        sys.stdout.write(f"{{rank}} {{i}} {{'x' * (i % 100)}}\\n")
    sys.stdout.write("unfinished")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lines_are_whole_and_none_is_lost_when_workers_die(tmp_path: Path) -> None:
    options = ("--nproc-per-node=4", "--max-restarts=0", "--shutdown-timeout=60")
    with Running(tmp_path, BUSY.replace("os.kill(os.getpid(), signal.SIGKILL)", ""), *options) as job:
        assert job.end() == 0
        seen = Counter(job.out)
    expected = Counter(f"[{rank}]:{rank} {i} {'x' * (i % 100)}" for rank in range(4) for i in range(LINES))
    assert seen == expected + Counter(f"[{rank}]:unfinished" for rank in range(4))


def test_what_was_written_before_a_kill_is_there(tmp_path: Path) -> None:
    with Running(tmp_path, BUSY, "--max-restarts=0", "--no-prefix") as job:
        assert job.end() == 1
        assert job.out == [*(f"0 {i} {'x' * (i % 100)}" for i in range(LINES)), "unfinished"]


def test_a_console_that_nobody_reads_does_not_stop_the_agent(tmp_path: Path) -> None:
    """More than all buffers hold; then the job is told to end, and ends."""
    (tmp_path / "job.py").write_text("print('x' * 1000 * 1000); [print('y' * 1000) for _ in range(30_000)]")
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "pycomms", "run", "--shutdown-timeout=1", "job.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=write,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(write)
        try:
            assert process.stderr is not None
            assert wait_for(lambda: os.read(read, 1) == b"[")  # it has begun
            process.send_signal(signal.SIGTERM)
            assert b"SIGTERM" in process.stderr.readline()
            assert process.wait(60) == 143
        finally:
            process.kill()
            os.close(read)


def test_a_line_that_never_ends(tmp_path: Path) -> None:
    with Running(tmp_path, f"print('x' * {3 * LONGEST})", "--no-prefix") as job:
        assert job.end() == 0
        assert "".join(job.out) == "x" * (3 * LONGEST)
        assert 2 <= len(job.out) <= 4


@pytest.mark.parametrize(
    "pieces, lines",
    [
        ([b"a\nb\n"], [b"a\n", b"b\n"]),
        ([b"a", b"b\nc"], [b"ab\n", b"c\n"]),
        ([b"a\r\nb\r", b"\nc"], [b"a\r\n", b"b\r\n", b"c\n"]),
        ([b"10%\r20%\r", b"30%\r\n"], [b"10%\r", b"20%\r", b"30%\r\n"]),
        ([b"\r\r\n\n"], [b"\r", b"\r\n", b"\n"]),
        ([b"", b"\xff\n"], [b"\xff\n"]),
        ([], []),
    ],
)
def test_cutting(pieces: list[bytes], lines: list[bytes]) -> None:
    cutter = Lines()
    cut = [line for piece in pieces for line in cutter.feed(piece)]
    assert [*cut, *cutter.end()] == lines
