// Tells where the host has placed two cores just now: one line in, one line out, the nanoseconds that a cache line takes
// one way between them (the least of a few short ping-pongs, so that a preemption does not count).
//   placement_probe CORE CORE < commands
// Between two lines it is blocked in a read. Must not know what is measured around it.
#include <string>

#include "pair.h"

namespace {

constexpr int kTries = 5;
constexpr int kBounces = 400;

// One process's side of a try; the flags count on.
double bounce(bench::Flag& mine, bench::Flag& theirs, bool first, uint64_t& turn) {
  const int64_t start = bench::now_ns();
  for (int i = 0; i < kBounces; ++i) {
    ++turn;
    if (first) mine.set(turn);
    while (theirs.get() != turn) {
    }
    if (!first) mine.set(turn);
  }
  return static_cast<double>(bench::now_ns() - start) / (2 * kBounces);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) bench::die("usage: placement_probe CORE CORE");
  auto* flags = new (bench::map_or_die(sizeof(bench::Flags), MAP_SHARED | MAP_ANONYMOUS, -1)) bench::Flags;
  int wake[2];
  if (pipe(wake) != 0) bench::die("pipe failed");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) bench::die("fork failed");
  const int me = child == 0 ? 1 : 0;
  if (me == 1) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return 1;
  }
  bench::pin_to(std::stoi(argv[1 + me]));
  uint64_t turn = 0;
  char line[64];
  for (;;) {
    if (me == 0) {
      if (std::fgets(line, sizeof line, stdin) == nullptr) break;
      if (write(wake[1], "x", 1) != 1) break;
    } else if (read(wake[0], line, 1) != 1) {
      break;
    }
    double best = 1e18;
    for (int i = 0; i < kTries; ++i) best = std::min(best, bounce(flags->ping[me], flags->ping[1 - me], me == 0, turn));
    if (me == 0) {
      std::printf("%.1f\n", best);
      std::fflush(stdout);
    }
  }
  if (me == 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return 0;
}
